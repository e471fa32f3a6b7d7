/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - see result.h. */
#include "common/script/result.h"

#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/utf8.h"
#include "common/base/xalloc.h"
#include "common/script/merge_records.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* bytes of text that are collected before they are written to the file */
enum { TEXT_BYTES = 1 << 20 };

/* A file that grows by records or rows. */
typedef struct result {
    const ps_result_conf *conf;
    ps_file_writer file;
    ps_strbuf text; /* what is not written to the file yet */
    uint32_t width; /* number of values of each key, the same for all in CSV */
    uint64_t rows;
    uint64_t bytes; /* bytes of records so far */
} result;

/* ---- Partitions ---- */

void ps_part_name(char out[PS_MERGE_NAME_BYTES], uint32_t part)
{
    snprintf(out, PS_MERGE_NAME_BYTES, "part-%05u.records", part);
}

void ps_reduced_name(char out[PS_MERGE_NAME_BYTES], uint32_t server)
{
    snprintf(out, PS_MERGE_NAME_BYTES, ".reduced-%u", server);
}

/* Returns floor(n * part / count) without overflow: part <= count < 2^32. */
static uint64_t share(uint64_t n, uint32_t part, uint32_t count)
{
    return n / count * part + n % count * part / count;
}

void ps_part_range(int64_t from, int64_t to, uint32_t part, uint32_t count, ps_partition *out)
{
    uint64_t n = (uint64_t)to - (uint64_t)from + 1;

    out->has_range = true;
    out->from = (int64_t)((uint64_t)from + share(n, part, count));
    out->to = (int64_t)((uint64_t)from + share(n, part + 1, count) - 1);
}

/* Returns where the first line begins that begins at `at` or after it. */
static size_t line_from(const char *text, size_t n, size_t at)
{
    const char *end;

    if (at == 0 || at >= n) {
        return at < n ? at : n;
    }
    end = memchr(text + at - 1, '\n', n - at + 1);
    return end != NULL ? (size_t)(end + 1 - text) : n;
}

void ps_part_lines(const char *text, size_t n, uint32_t part, uint32_t count, ps_partition *out)
{
    size_t begin = line_from(text, n, (size_t)share(n, part, count)),
           end = line_from(text, n, (size_t)share(n, part + 1, count));

    out->text = text + begin;
    out->bytes = end - begin;
}

/* ---- Rows ---- */

/* Writes the shortest text that reads as the same number. */
static void put_number(ps_strbuf *to, double x)
{
    char text[32];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (memcmp(&(double){strtod(text, NULL)}, &x, sizeof x) == 0) {
            break;
        }
    }
    ps_strbuf_puts(to, text);
}

/* Writes text as a field of CSV (RFC 4180). */
static void put_field(ps_strbuf *to, const char *text, size_t n)
{
    bool is_quoted = n == 0;

    for (size_t i = 0; i < n; i++) {
        is_quoted = is_quoted || text[i] == ',' || text[i] == '"' || text[i] == '\n' ||
                    text[i] == '\r' || text[i] == ' ';
    }
    if (!is_quoted) {
        ps_strbuf_append(to, text, n);
        return;
    }
    ps_strbuf_putc(to, '"');
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            ps_strbuf_putc(to, '"');
        }
        ps_strbuf_putc(to, text[i]);
    }
    ps_strbuf_putc(to, '"');
}

/* Writes text as a string of JSON; bytes that are not UTF-8 become U+FFFD. */
static void put_string(ps_strbuf *to, const char *text, size_t n)
{
    ps_strbuf good = {0};

    for (size_t i = 0; i < n;) {
        size_t len = ps_utf8_length(text + i, n - i);

        if (len > 0) {
            ps_strbuf_append(&good, text + i, len);
        } else {
            ps_strbuf_puts(&good, "\xef\xbf\xbd");
        }
        i += len > 0 ? len : 1;
    }
    ps_strbuf_json_string(to, ps_strbuf_text(&good), good.len);
    ps_strbuf_fini(&good);
}

static void put_scalar(const result *r, ps_strbuf *to, const ps_scalar_value *x)
{
    switch (x->kind) {
    case PS_RECORD_INTEGER:
        ps_strbuf_printf(to, "%lld", (long long)x->integer);
        break;
    case PS_RECORD_NUMBER:
        put_number(to, x->number);
        break;
    case PS_RECORD_STRING:
        (r->conf->is_json ? put_string : put_field)(to, x->text, x->len);
        break;
    default:
        ps_strbuf_puts(to, x->kind == PS_RECORD_TRUE ? "true" : "false");
    }
}

/* Writes the name of a column of the CSV; column 0 is the key. Without names from the job they are
 * key and value, or key, value1, value2 and so on if a key has several values. */
static void put_column(result *r, uint32_t column)
{
    ps_strbuf *to = &r->text;

    if (column < r->conf->column_count) {
        ps_strbuf_puts(to, r->conf->columns[column]);
    } else if (column == 0 || r->width == 1) {
        ps_strbuf_puts(to, column == 0 ? "key" : "value");
    } else {
        ps_strbuf_printf(to, "value%u", column);
    }
}

/* Checks that a row of CSV has as many values as the others. For the first row, checks the number
 * of column names instead, and writes the header. */
static ps_status check_width(result *r, uint32_t width)
{
    if (r->rows > 0) {
        return width == r->width
                   ? ps_ok()
                   : ps_fail(PS_FAILED_PRECONDITION,
                             "one key has %u values and another %u; in CSV all have as many, so "
                             "choose json",
                             r->width, width);
    }
    r->width = width;
    if (r->conf->column_count > 0 && r->conf->column_count != 1 + (size_t)width) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "there are %zu names of columns for a key with %u values",
                       r->conf->column_count, width);
    }
    for (uint32_t i = 0; i <= width; i++) {
        ps_strbuf_puts(&r->text, i > 0 ? "," : "");
        put_column(r, i);
    }
    ps_strbuf_putc(&r->text, '\n');
    return ps_ok();
}

static ps_status put_csv(result *r, const ps_keyed *record)
{
    const uint8_t *key = record->at, *at;
    bool is_list;
    uint32_t width = ps_record_value(record, &at, &is_list);
    ps_scalar_value x = ps_record_scalar(&key);
    ps_status st = check_width(r, width);

    put_scalar(r, &r->text, &x);
    for (uint32_t i = 0; i < width; i++) {
        x = ps_record_scalar(&at);
        ps_strbuf_putc(&r->text, ',');
        put_scalar(r, &r->text, &x);
    }
    ps_strbuf_putc(&r->text, '\n');
    return st;
}

/* Writes a record as an object with key and value, or with the columns that have names. */
static ps_status put_json(result *r, const ps_keyed *record)
{
    const uint8_t *key = record->at, *at;
    bool is_list, is_named = r->conf->column_count > 0;
    uint32_t n = ps_record_value(record, &at, &is_list);
    ps_scalar_value x = ps_record_scalar(&key);

    if (is_named && r->conf->column_count != 1 + (size_t)n) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "there are %zu names of columns for a key with %u values",
                       r->conf->column_count, n);
    }
    ps_strbuf_puts(&r->text, r->rows > 0 ? ",\n{\"" : "[\n{\"");
    put_column(r, 0);
    ps_strbuf_puts(&r->text, "\": ");
    put_scalar(r, &r->text, &x);
    if (!is_named) {
        ps_strbuf_puts(&r->text, is_list ? ", \"value\": [" : ", \"value\": ");
    }
    for (uint32_t i = 0; i < n; i++) {
        x = ps_record_scalar(&at);
        ps_strbuf_puts(&r->text, is_named || i > 0 ? ", " : "");
        if (is_named) {
            ps_strbuf_printf(&r->text, "\"%s\": ", r->conf->columns[i + 1]);
        }
        put_scalar(r, &r->text, &x);
    }
    ps_strbuf_puts(&r->text, is_list && !is_named ? "]}" : "}");
    return ps_ok();
}

static ps_status flush(result *r)
{
    ps_status st = ps_file_writer_add(&r->file, ps_strbuf_text(&r->text), r->text.len);

    ps_strbuf_clear(&r->text);
    return st;
}

static ps_status put_row(void *arg, const ps_keyed *record)
{
    result *r = arg;
    ps_status st = (r->conf->is_json ? put_json : put_csv)(r, record);

    r->rows++;
    return ps_is_ok(&st) && r->text.len >= TEXT_BYTES ? flush(r) : st;
}

/* Writes the end of the file: the closing bracket of JSON, or the header of a CSV without rows. */
static ps_status put_end(result *r)
{
    if (r->conf->is_json) {
        ps_strbuf_puts(&r->text, r->rows > 0 ? "\n]\n" : "[]\n");
    } else if (r->rows == 0) {
        ps_status st =
            check_width(r, r->conf->column_count > 0 ? (uint32_t)r->conf->column_count - 1 : 1);

        (void)st; /* cannot fail: the width follows from the column names */
    }
    return ps_ok();
}

/* ---- Records ---- */

static ps_status put_record(void *arg, const ps_keyed *record)
{
    result *r = arg;
    size_t n = record->key_bytes + record->value_bytes;

    r->bytes += n;
    if (r->bytes > PS_REDUCED_MAX) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s: reduce and finish give a server more than %llu bytes of records; have "
                       "more pservers",
                       ps_script_file(r->conf->script), (unsigned long long)PS_REDUCED_MAX);
    }
    ps_strbuf_append(&r->text, (const char *)record->at, n);
    return r->text.len >= TEXT_BYTES ? flush(r) : ps_ok();
}

/* ---- The files ---- */

/* Merges the records of all partitions by the executor, or those of all servers if it is NULL. */
static ps_status merge(result *r, ps_executor *executor, ps_merge_take_fn *take)
{
    const ps_result_conf *conf = r->conf;
    const bool is_reduced = executor == NULL;

    return ps_merge(&(ps_merge_conf){.folder = conf->folder,
                                     .name_of = is_reduced ? ps_reduced_name : ps_part_name,
                                     .count = is_reduced ? conf->servers : conf->parts,
                                     .what = is_reduced ? "server" : "partition",
                                     .executor = executor,
                                     .code = ps_script_file(conf->script),
                                     .numbers = conf->numbers,
                                     .within_us = conf->within_us,
                                     .take = take,
                                     .arg = r});
}

/* Ends the file, whole or not at all. */
static ps_status end(result *r, ps_status st)
{
    if (ps_is_ok(&st)) {
        st = flush(r);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_writer_commit(&r->file);
    } else {
        ps_file_writer_abandon(&r->file);
    }
    ps_strbuf_fini(&r->text);
    return st;
}

ps_status ps_result_reduce(const ps_result_conf *conf, ps_executor *executor, const char *path)
{
    result r = {.conf = conf};
    ps_status st = ps_file_writer_open_passing(&r.file, path);

    return ps_is_ok(&st) ? end(&r, merge(&r, executor, put_record)) : st;
}

ps_status ps_result_write(const ps_result_conf *conf, const char *path, uint64_t *rows)
{
    result r = {.conf = conf};
    ps_executor *executor = NULL;
    ps_status st = ps_file_writer_open(&r.file, path);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (conf->servers == 0) {
        st = ps_executor_start(conf->script, &conf->budget, &executor);
    }
    if (ps_is_ok(&st)) {
        st = merge(&r, executor, put_row);
    }
    if (ps_is_ok(&st)) {
        st = put_end(&r);
    }
    ps_executor_end(executor);
    *rows = r.rows;
    return end(&r, st);
}
