/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h. */
#include "common/artifact/manifest.h"

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/strbuf.h"

#include <assert.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>

ps_status ps_manifest_measure(const char *dir, ps_manifest_file *file)
{
    char path[PATH_MAX];
    ps_status st = ps_path_join(path, sizeof path, dir, file->name);

    if (ps_is_ok(&st)) {
        st = ps_sha256_of_file(path, file->sha256, &file->size);
    }
    return st;
}

ps_status ps_manifest_write(const char *path, const ps_manifest_file *files, size_t count)
{
    ps_strbuf json = {0};
    ps_status st;

    ps_strbuf_puts(&json, "{\"files\":[");
    for (size_t i = 0; i < count; i++) {
        json_t *file = json_pack("{s:s, s:s, s:I, s:s, s:s}", "name", files[i].name, "kind",
                                 files[i].kind, "size", (json_int_t)files[i].size, "sha256",
                                 files[i].sha256, "node_id", files[i].node_id);
        char *line = json_dumps(file, JSON_COMPACT);

        assert(line != NULL); /* names of files and nodes are UTF-8 */
        ps_strbuf_printf(&json, "%s\n  %s", i == 0 ? "" : ",", line);
        free(line);
        json_decref(file);
    }
    ps_strbuf_puts(&json, count == 0 ? "]}\n" : "\n]}\n");
    st = ps_file_write(path, json.data, json.len);
    ps_strbuf_fini(&json);
    return st;
}
