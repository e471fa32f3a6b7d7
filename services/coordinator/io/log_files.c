/* SPDX-License-Identifier: Apache-2.0 */
/* log_files.c - see log_files.h. */
#include "services/coordinator/io/log_files.h"

#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads node and attempt from a file's name. Returns whether it is the name of a log of a job with
 * this title. */
static bool read_name(const char *name, const char *title, ps_log_file *out)
{
    char prefix[PS_NAME_MAX + 1], wanted[PS_NAME_MAX + 1];
    int n = snprintf(prefix, sizeof prefix, "LOG-%.36s-N(", title);
    const char *node = name + n, *end;
    unsigned long attempt;

    if (strncmp(name, prefix, (size_t)n) != 0 || strlen(name) > PS_NAME_MAX ||
        (end = strchr(node, ')')) == NULL || (size_t)(end - node) >= sizeof out->node_id) {
        return false;
    }
    *out = (ps_log_file){.attempt = 1};
    memcpy(out->name, name, strlen(name) + 1);
    memcpy(out->node_id, node, (size_t)(end - node));
    attempt = strtoul(end + 1 + (end[1] == '.'), NULL, 10);
    if (attempt > 1 && attempt <= UINT32_MAX) {
        out->attempt = (uint32_t)attempt;
    }
    ps_artifacts_log_name(wanted, title, out->node_id, out->attempt);
    return strcmp(wanted, name) == 0;
}

static int by_age(const void *a, const void *b)
{
    const ps_log_file *x = a, *y = b;

    if (x->attempt != y->attempt) {
        return x->attempt > y->attempt ? -1 : 1;
    }
    return strcmp(x->node_id, y->node_id);
}

/* Sorts the logs, newest attempt first. Keeps all of `attempt`, and the first PS_LOST_LOGS_MAX of
 * earlier ones. Returns how many stay. */
static size_t keep_newest(ps_log_file *files, size_t count, uint32_t attempt)
{
    size_t present = 0;

    if (count > 1) {
        qsort(files, count, sizeof *files, by_age);
    }
    while (present < count && files[present].attempt == attempt) {
        present++;
    }
    return count - present > PS_LOST_LOGS_MAX ? present + PS_LOST_LOGS_MAX : count;
}

ps_status ps_log_files_list(const char *folder, const char *title, uint32_t attempt,
                            ps_log_file **out, size_t *count)
{
    DIR *dir = opendir(folder);
    ps_log_file *files = NULL;
    size_t n = 0, cap = 0;
    const struct dirent *at;

    if (dir == NULL) {
        return ps_fail_errno(errno, "list %s", PS_PATH_SHOWN(folder));
    }
    while ((at = readdir(dir)) != NULL) {
        ps_log_file one;

        if (!read_name(at->d_name, title, &one) || one.attempt > attempt) {
            continue;
        }
        if (n == cap) { /* a job of many attempts has many logs: drops the oldest before it grows */
            n = keep_newest(files, n, attempt);
            cap = 2 * n + PS_LOST_LOGS_MAX;
            files = ps_xrealloc(files, cap * sizeof *files);
        }
        files[n++] = one;
    }
    closedir(dir);
    *count = keep_newest(files, n, attempt);
    *out = files;
    return ps_ok();
}
