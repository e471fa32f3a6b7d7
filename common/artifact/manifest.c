/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h. */
#include "common/artifact/manifest.h"

#include "common/artifact/number.h"
#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/strbuf.h"

#include <limits.h>
#include <math.h>
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

static void put_number(ps_strbuf *json, double value)
{
    char text[PS_NUMBER_BYTES];

    ps_strbuf_puts(json, isfinite(value) ? ps_number_text(value, text) : "null");
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

ps_status ps_summary_write(const char *path, const ps_summary *summary)
{
    ps_strbuf json = {0};
    ps_status st;

    ps_strbuf_puts(&json, "{\n  ");
    put_text(&json, "job_id", summary->job_id);
    ps_strbuf_puts(&json, ",\n  ");
    put_text(&json, "title", summary->title);
    ps_strbuf_puts(&json, ",\n  ");
    put_text(&json, "state", summary->state);
    ps_strbuf_puts(&json, ",\n  ");
    put_text(&json, "message", summary->message);
    ps_strbuf_puts(&json, ",\n  \"elapsed_s\":");
    put_number(&json, summary->elapsed_s);
    ps_strbuf_puts(&json, ",\n  ");
    put_count(&json, "steps", summary->steps);
    ps_strbuf_puts(&json, ",\n  ");
    put_count(&json, "bytes_up", summary->bytes_up);
    ps_strbuf_puts(&json, ",\n  ");
    put_count(&json, "bytes_down", summary->bytes_down);
    ps_strbuf_puts(&json, ",\n  ");
    put_count(&json, "workers", summary->workers);
    ps_strbuf_puts(&json, ",\n  ");
    put_count(&json, "pservers", summary->pservers);
    ps_strbuf_puts(&json, ",\n  \"metrics\":{");
    for (size_t i = 0; i < summary->metric_count; i++) {
        const char *name = summary->metrics[i].name;

        ps_strbuf_puts(&json, i == 0 ? "" : ",");
        ps_strbuf_json_string(&json, name, strlen(name));
        ps_strbuf_putc(&json, ':');
        put_number(&json, summary->metrics[i].value);
    }
    ps_strbuf_puts(&json, "}\n}\n");
    st = ps_file_write(path, json.data, json.len);
    ps_strbuf_fini(&json);
    return st;
}
