/* SPDX-License-Identifier: Apache-2.0 */
/* code_files.c - see code_files.h. */
#include "clients/psgd/code_files.h"

#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/script/sandbox_protocol.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a file and returns {"file": its name without folders, "text": its contents}. Returns NULL
 * after a failure, which *st describes. */
static json_t *read_file(const char *path, ps_status *st)
{
    const char *slash = strrchr(path, '/');
    char *text = NULL;
    json_t *file = NULL;
    size_t n = 0;

    *st = ps_wrap(ps_file_read(path, PS_SANDBOX_TEXT_MAX, &text, &n), "code");
    if (ps_is_ok(st) && memchr(text, '\0', n) == NULL) {
        file = json_pack("{s:s, s:s%}", "file", slash != NULL ? slash + 1 : path, "text", text, n);
    }
    if (ps_is_ok(st) && file == NULL) {
        *st = ps_fail(PS_INVALID_ARGUMENT, "code: %s is not text (UTF-8)", PS_PATH_SHOWN(path));
    }
    free(text);
    return file;
}

ps_status ps_code_files_read(json_t *job, const char *beside, const ps_option_list *more)
{
    const char *slash = strrchr(beside, '/');
    json_t *code = json_object_get(job, "code"), *item;
    ps_status st = ps_ok();
    char path[PATH_MAX];
    size_t i;

    json_array_foreach(code, i, item)
    {
        const char *name = json_string_value(item);

        if (name != NULL && ps_is_ok(&st)) {
            snprintf(path, sizeof path, "%.*s%s",
                     slash != NULL && name[0] != '/' ? (int)(slash + 1 - beside) : 0, beside, name);
            json_array_set_new(code, i, read_file(path, &st));
        }
    }
    if (more->n > 0 && !json_is_array(code) && json_is_object(job)) {
        code = json_array();
        json_object_set_new(job, "code", code);
    }
    for (i = 0; i < more->n && ps_is_ok(&st); i++) {
        json_array_append_new(code, read_file(more->items[i], &st));
    }
    return st;
}
