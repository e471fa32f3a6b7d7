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
#include <string.h>

ps_status ps_manifest_measure(const char *dir, ps_manifest_file *file)
{
    char path[PATH_MAX];
    ps_status st = ps_path_join(path, sizeof path, dir, file->name);

    if (ps_is_ok(&st)) {
        st = ps_sha256_of_file(path, file->sha256, &file->size);
    }
    return st;
}

static ps_status read_file(const json_t *json, size_t index,
                           ps_status (*fn)(void *arg, const ps_manifest_file *file), void *arg)
{
    const char *sha256 = NULL;
    ps_manifest_file file = {.node_id = ""};
    json_int_t size = -1;

    if (json_unpack((json_t *)json, "{s:s, s:s, s:I, s:s, s?s}", "name", &file.name, "kind",
                    &file.kind, "size", &size, "sha256", &sha256, "node_id", &file.node_id) != 0 ||
        !ps_file_name_is_safe(file.name) || size < 0 || strlen(sha256) != sizeof file.sha256 - 1 ||
        strspn(sha256, "0123456789abcdef") != sizeof file.sha256 - 1) {
        return ps_fail(PS_DATA_LOSS, "manifest: files[%zu] is no file of a job", index);
    }
    file.size = (uint64_t)size;
    memcpy(file.sha256, sha256, sizeof file.sha256);
    return fn(arg, &file);
}

ps_status ps_manifest_parse(const char *text, size_t n, size_t most,
                            ps_status (*fn)(void *arg, const ps_manifest_file *file), void *arg)
{
    json_error_t where;
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where), *files;
    ps_status st = ps_ok();

    if (!json_is_object(json)) {
        json_decref(json);
        return json == NULL ? ps_fail(PS_DATA_LOSS, "manifest:%d: %s", where.line, where.text)
                            : ps_fail(PS_DATA_LOSS, "manifest: no object");
    }
    files = json_object_get(json, "files");
    if (!json_is_array(files) || json_array_size(files) > most) {
        st = ps_fail(PS_DATA_LOSS, "manifest: files is no list of at most %zu", most);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < json_array_size(files); i++) {
        st = read_file(json_array_get(files, i), i, fn, arg);
    }
    json_decref(json);
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
