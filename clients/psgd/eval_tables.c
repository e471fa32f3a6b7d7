/* SPDX-License-Identifier: Apache-2.0 */
/* eval_tables.c - see eval_tables.h. */
#include "clients/psgd/eval_tables.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* Returns whether the name `file` is that of a sparse table of the model file named `model`: the
 * first `stem` bytes of `model`, which end with "-N(", then "ps", and PS_TABLE_FILE_ENDING last. */
static bool is_table(const char *file, const char *model, size_t stem)
{
    size_t n = strlen(file), tail = strlen(PS_TABLE_FILE_ENDING);

    return strncmp(file, model, stem) == 0 && strncmp(file + stem, "ps", 2) == 0 && n > tail &&
           strcmp(file + n - tail, PS_TABLE_FILE_ENDING) == 0;
}

/* Finds the table files in the model file's folder, sorted by name:
 * MODEL-TITLE-N(ps0).table0.psgdtab belongs to MODEL-TITLE-N(ps).safetensors, and to that of a
 * worker, MODEL-TITLE-N(0).safetensors. Finds none if the model file's name has no "-N(". The
 * caller frees each path and the list. */
static ps_status find(const char *model_path, char ***out, size_t *count)
{
    const char *slash = strrchr(model_path, '/');
    const char *name = slash != NULL ? slash + 1 : model_path, *end = strstr(name, "-N(");
    int head = (int)(name - model_path);
    char folder[PATH_BYTES];
    struct dirent **found = NULL;
    int entries;

    if (end == NULL ||
        (size_t)snprintf(folder, sizeof folder, "%.*s", head, model_path) >= sizeof folder) {
        return ps_ok();
    }
    entries = scandir(head > 0 ? folder : ".", &found, NULL, alphasort);
    if (entries < 0) {
        return ps_fail_errno(errno, "tables beside %s", PS_PATH_SHOWN(model_path));
    }
    for (int i = 0; i < entries; i++) {
        const char *file = found[i]->d_name;

        if (is_table(file, name, (size_t)(end - name) + strlen("-N("))) {
            size_t bytes = (size_t)head + strlen(file) + 1;

            *out = ps_xrealloc(*out, (*count + 1) * sizeof **out);
            (*out)[*count] = ps_xmalloc(bytes);
            snprintf((*out)[(*count)++], bytes, "%s%s", folder, file);
        }
        free(found[i]);
    }
    free(found);
    return ps_ok();
}

ps_status ps_eval_tables(const ps_plan *plan, const char *model_path, const ps_option_list *named,
                         ps_evaluation_rows **out)
{
    char **found = NULL;
    size_t count = 0;
    ps_status st;

    *out = NULL;
    if (ps_plan_table_files(plan) == 0) {
        return named->n == 0 ? ps_ok()
                             : ps_fail(PS_INVALID_ARGUMENT,
                                       "--table: the model has no sparse tables (model.table)");
    }
    if (named->n > 0) {
        return ps_evaluation_rows_open(plan, named->items, named->n, out);
    }
    st = find(model_path, &found, &count);
    if (ps_is_ok(&st) && count == 0) {
        st = ps_fail(PS_NOT_FOUND,
                     "%s has sparse tables, and no file with their rows is "
                     "beside it; give one by --table FILE",
                     PS_PATH_SHOWN(model_path));
    }
    if (ps_is_ok(&st)) {
        st = ps_evaluation_rows_open(plan, (const char *const *)found, count, out);
    }
    for (size_t i = 0; i < count; i++) {
        free(found[i]);
    }
    free(found);
    return st;
}
