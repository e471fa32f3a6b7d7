/* SPDX-License-Identifier: Apache-2.0 */
/* data_room.c - see data_room.h. */
#include "common/node/data_room.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct stored {
    char name[PS_NAME_MAX + 1];
    uint64_t bytes;
    struct timespec used;
} stored;

/* Returns whether a folder of this name is a set that was received, or is being received. */
static bool is_set(const char *name)
{
    size_t hex = strspn(name, "0123456789abcdef");

    return ps_name_is_safe(name) && hex == PS_SHA256_HEX_BYTES - 1 &&
           (name[hex] == '\0' || name[hex] == '.');
}

/* Returns the bytes of the files in a set's folder and in folders below, without links and names
 * that begin with a dot. */
static uint64_t bytes_of(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *at;
    uint64_t bytes = 0;

    while (dir != NULL && (at = readdir(dir)) != NULL) {
        struct stat facts;

        if (at->d_name[0] == '.' ||
            fstatat(dirfd(dir), at->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (S_ISREG(facts.st_mode)) {
            bytes += (uint64_t)facts.st_size;
        } else if (S_ISDIR(facts.st_mode)) {
            char below[PATH_MAX];
            ps_status st = ps_path_join(below, sizeof below, path, at->d_name);

            bytes += ps_is_ok(&st) ? bytes_of(below) : 0;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return bytes;
}

/* Compares sets by the time of their last use, the oldest first. */
static int by_use(const void *a, const void *b)
{
    const stored *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec) {
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    }
    if (x->used.tv_nsec != y->used.tv_nsec) {
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* Lists the sets below `folder`, also those that are being received. The caller frees the list,
 * which is NULL if there are none. */
static stored *list_sets(const char *folder, size_t *count)
{
    DIR *dir = opendir(folder);
    struct dirent *at;
    stored *sets = NULL;
    size_t n = 0, cap = 0;

    while (dir != NULL && (at = readdir(dir)) != NULL) {
        struct stat facts;
        char path[800];
        ps_status st = ps_path_join(path, sizeof path, folder, at->d_name);

        if (!ps_is_ok(&st) || !is_set(at->d_name) || lstat(path, &facts) != 0 ||
            !S_ISDIR(facts.st_mode)) {
            continue;
        }
        if (n == cap) {
            cap = cap == 0 ? 16 : 2 * cap;
            sets = ps_xrealloc(sets, cap * sizeof *sets);
        }
        snprintf(sets[n].name, sizeof sets[n].name, "%.*s", PS_NAME_MAX, at->d_name);
        sets[n].bytes = bytes_of(path);
        sets[n].used = facts.st_mtim;
        n++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    *count = n;
    return sets;
}

static bool remove_set(const char *folder, const stored *set)
{
    char path[800];
    ps_status st = ps_path_join(path, sizeof path, folder, set->name);

    if (ps_is_ok(&st)) {
        st = ps_dir_remove(path);
    }
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "node", "data set %s stays: %s", set->name, st.text);
        return false;
    }
    ps_log_with(PS_LOG_INFO, "node",
                PS_LOG_FIELDS(PS_LOG_STR("sha256", set->name), PS_LOG_NUM("bytes", set->bytes)),
                "data set removed");
    return true;
}

uint64_t ps_data_room_trim(const char *folder, uint64_t keep_bytes, ps_data_in_use_fn *is_in_use,
                           void *arg)
{
    size_t count = 0;
    stored *sets = list_sets(folder, &count);
    uint64_t left = 0;

    for (size_t i = 0; i < count; i++) {
        left += sets[i].bytes;
    }
    if (count > 0) {
        qsort(sets, count, sizeof *sets, by_use);
    }
    for (size_t i = 0; i < count && left > keep_bytes; i++) {
        if (strchr(sets[i].name, '.') == NULL && !is_in_use(arg, sets[i].name) &&
            remove_set(folder, &sets[i])) {
            left -= sets[i].bytes;
        }
    }
    free(sets);
    return left;
}

void ps_data_room_touch(const char *path)
{
    /* if this fails, the set keeps its old place in the order */
    (void)utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}
