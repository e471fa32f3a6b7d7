/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h. */
#include "common/artifact/manifest.h"

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/strbuf.h"

#include <limits.h>
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

static void put_text(ps_strbuf *json, const char *key, const char *text)
{
    ps_strbuf_printf(json, "\"%s\":", key);
    ps_strbuf_json_string(json, text, strlen(text));
}

static void put_count(ps_strbuf *json, const char *key, uint64_t count)
{
    ps_strbuf_printf(json, "\"%s\":%llu", key, (unsigned long long)count);
}

ps_status ps_manifest_write(const char *path, const ps_manifest_file *files, size_t count)
{
    ps_strbuf json = {0};
    ps_status st;

    ps_strbuf_puts(&json, "{\"files\":[");
    for (size_t i = 0; i < count; i++) {
        ps_strbuf_puts(&json, i == 0 ? "\n  {" : ",\n  {");
        put_text(&json, "name", files[i].name);
        ps_strbuf_puts(&json, ", ");
        put_text(&json, "kind", files[i].kind);
        ps_strbuf_puts(&json, ", ");
        put_count(&json, "size", files[i].size);
        ps_strbuf_puts(&json, ", ");
        put_text(&json, "sha256", files[i].sha256);
        ps_strbuf_puts(&json, ", ");
        put_text(&json, "node_id", files[i].node_id);
        ps_strbuf_putc(&json, '}');
    }
    ps_strbuf_puts(&json, count == 0 ? "]}\n" : "\n]}\n");
    st = ps_file_write(path, json.data, json.len);
    ps_strbuf_fini(&json);
    return st;
}
