/* SPDX-License-Identifier: Apache-2.0 */
/* trace_merge.c - see trace_file.h: the file of all parts. A part comes from another process, so
 * each line is checked before it becomes a part of the file. */
#include "common/trace/trace_file.h"

#include "common/base/files.h"
#include "common/base/log.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { LINE_MAX_BYTES = 8192, PACKED_BYTES = 65536, WINDOW_OF_GZIP = 15 + 16 };

typedef struct packer {
    z_stream z;
    ps_file_writer file;
    bool has_event;
    size_t refused;  /* number of lines that were left out because they are no events */
    double error_us; /* largest error of a clock that a part states; negative: none states one */
} packer;

static ps_status pack(packer *p, const char *text, size_t len, int flush)
{
    Bytef out[PACKED_BYTES];
    ps_status st = ps_ok();

    p->z.next_in = (Bytef *)(uintptr_t)text; /* zlib only reads it */
    p->z.avail_in = (uInt)len;
    do {
        p->z.next_out = out;
        p->z.avail_out = sizeof out;
        (void)deflate(&p->z, flush);
        st = ps_file_writer_add(&p->file, out, sizeof out - p->z.avail_out);
    } while (ps_is_ok(&st) && p->z.avail_out == 0);
    return st;
}

/* Raises p->error_us to the error that this event states of its part's clock, if it states one. */
static void note_error(packer *p, const json_t *event)
{
    const json_t *us = json_object_get(json_object_get(event, "args"), "clock_error_us");

    if (json_is_number(us) && json_number_value(us) > p->error_us) {
        p->error_us = json_number_value(us);
    }
}

static bool take_event(packer *p, const char *line, size_t len)
{
    json_t *json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *phase = json_string_value(json_object_get(json, "ph"));
    bool is_one = phase != NULL && strlen(phase) == 1 && strchr("XMstfi", phase[0]) != NULL &&
                  json_is_integer(json_object_get(json, "pid")) &&
                  json_is_string(json_object_get(json, "name"));

    if (is_one && phase[0] == 'M') {
        note_error(p, json);
    }
    json_decref(json);
    return is_one;
}

static ps_status add_part(packer *p, FILE *part)
{
    char line[LINE_MAX_BYTES];
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && fgets(line, sizeof line, part) != NULL) {
        size_t len = strlen(line);

        if (len == 0 || line[len - 1] != '\n' || !take_event(p, line, len - 1)) {
            p->refused++;
            continue;
        }
        st = p->has_event ? pack(p, ",\n", 2, Z_NO_FLUSH) : ps_ok();
        p->has_event = true;
        if (ps_is_ok(&st)) {
            st = pack(p, line, len - 1, Z_NO_FLUSH);
        }
    }
    return st;
}

static ps_status add_parts(packer *p, char *const *parts, size_t count)
{
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    char tail[160] = "\n]}\n";
    ps_status st = pack(p, head, sizeof head - 1, Z_NO_FLUSH);

    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        FILE *part = parts[i] == NULL ? NULL : fopen(parts[i], "re");

        if (part != NULL) {
            st = add_part(p, part);
            fclose(part);
        }
    }
    if (p->error_us >= 0) {
        snprintf(
            tail, sizeof tail,
            "\n],\"otherData\":{\"clock\":\"coordinator, monotonic\",\"clock_error_us\":%.3f}}\n",
            p->error_us);
    }
    return ps_is_ok(&st) ? pack(p, tail, strlen(tail), Z_FINISH) : st;
}

static bool is_any(char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (parts[i] != NULL && access(parts[i], R_OK) == 0) {
            return true;
        }
    }
    return false;
}

ps_status ps_trace_merge(char *const *parts, size_t count, const char *path, bool *is_written)
{
    packer p = {.error_us = -1};
    ps_status st;

    *is_written = false;
    if (!is_any(parts, count)) {
        return ps_ok();
    }
    if (deflateInit2(&p.z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_OF_GZIP, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory to compress the timeline");
    }
    st = ps_file_writer_open(&p.file, path);
    if (ps_is_ok(&st)) {
        st = add_parts(&p, parts, count);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_commit(&p.file);
        } else {
            ps_file_writer_abandon(&p.file);
        }
    }
    (void)deflateEnd(&p.z);
    if (p.refused > 0) {
        ps_log(PS_LOG_WARN, "trace", "%zu lines of the timeline are no events and are left out",
               p.refused);
    }
    *is_written = ps_is_ok(&st);
    return st;
}
