/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - see result.h. */
#include "common/script/result.h"

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/utf8.h"
#include "common/base/xalloc.h"
#include "common/script/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The records of a partition, of which `now` is the next one. */
typedef struct part_file {
    uint8_t *bytes; /* the partition's file, mapped; NULL: it is empty */
    size_t n, at;
    ps_keyed now;
} part_file;

typedef struct merging {
    const ps_result_conf *conf;
    part_file *parts; /* (conf->parts) */
    uint32_t *heap;   /* (left) partitions with records left; the first has the least key */
    uint32_t left;
    ps_executor *executor;
    int64_t deadline_us;
    uint8_t *in, *out; /* (PS_MERGE_IN_MAX), (PS_MERGE_OUT_MAX) */
    size_t in_n;
    ps_file_writer file;
    ps_strbuf text; /* rows that are not written yet */
    uint32_t width; /* number of values of each key, the same for all in CSV */
    uint64_t rows;
} merging;

/* ---- Partitions ---- */

void ps_part_name(char out[PS_PART_NAME_BYTES], uint32_t part)
{
    snprintf(out, PS_PART_NAME_BYTES, "part-%05u.records", part);
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

/* ---- The heap ---- */

static bool is_before(const merging *m, uint32_t a, uint32_t b)
{
    int order = ps_record_compare(&m->parts[a].now, &m->parts[b].now);

    return order != 0 ? order < 0 : a < b;
}

static void sink(merging *m, uint32_t i)
{
    for (;;) {
        uint32_t least = i, kept = m->heap[i];

        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < m->left; child++) {
            least = is_before(m, m->heap[child], m->heap[least]) ? child : least;
        }
        if (least == i) {
            return;
        }
        m->heap[i] = m->heap[least];
        m->heap[least] = kept;
        i = least;
    }
}

/* Moves the first partition of the heap to its next record, or removes it if it has none left, and
 * restores the heap. */
static ps_status advance(merging *m)
{
    part_file *p = &m->parts[m->heap[0]];
    uint32_t which = m->heap[0];

    if (!ps_record_next(p->bytes, p->n, &p->at, &p->now)) {
        if (p->at != p->n) {
            return ps_fail(PS_DATA_LOSS, "the records of partition %u are damaged", which + 1);
        }
        m->heap[0] = m->heap[--m->left];
    }
    if (m->left > 0) {
        sink(m, 0);
    }
    return ps_ok();
}

static ps_status open_part(merging *m, uint32_t i)
{
    char name[PS_PART_NAME_BYTES], path[PS_PATH_MAX * 4];
    part_file *p = &m->parts[i];
    struct stat facts;
    int fd = -1;
    ps_status st;
    void *bytes;

    ps_part_name(name, i);
    st = ps_path_join(path, sizeof path, m->conf->folder, name);
    if (ps_is_ok(&st)) {
        st = ps_file_open(path, &fd, &facts);
    }
    if (!ps_is_ok(&st)) {
        st.code = PS_DATA_LOSS;
        return ps_wrap(st, "partition %u", i + 1);
    }
    p->n = (size_t)facts.st_size;
    bytes = p->n > 0 ? mmap(NULL, p->n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (bytes == MAP_FAILED) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "partition %u: no memory for %zu bytes", i + 1, p->n);
    }
    p->bytes = bytes;
    if (p->n > 0) {
        m->heap[m->left++] = i;
        if (!ps_record_next(p->bytes, p->n, &p->at, &p->now)) {
            return ps_fail(PS_DATA_LOSS, "the records of partition %u are damaged", i + 1);
        }
    }
    return st;
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

static void put_scalar(const merging *m, ps_strbuf *to, const ps_scalar_value *x)
{
    switch (x->kind) {
    case PS_RECORD_INTEGER:
        ps_strbuf_printf(to, "%lld", (long long)x->integer);
        break;
    case PS_RECORD_NUMBER:
        put_number(to, x->number);
        break;
    case PS_RECORD_STRING:
        (m->conf->is_json ? put_string : put_field)(to, x->text, x->len);
        break;
    default:
        ps_strbuf_puts(to, x->kind == PS_RECORD_TRUE ? "true" : "false");
    }
}

/* Writes the name of a column of the CSV; column 0 is the key. Without names from the job they are
 * key and value, or key, value1, value2 and so on if a key has several values. */
static void put_column(merging *m, uint32_t column)
{
    ps_strbuf *to = &m->text;

    if (column < m->conf->column_count) {
        ps_strbuf_puts(to, m->conf->columns[column]);
    } else if (column == 0 || m->width == 1) {
        ps_strbuf_puts(to, column == 0 ? "key" : "value");
    } else {
        ps_strbuf_printf(to, "value%u", column);
    }
}

/* Checks that a row of CSV has as many values as the others. For the first row, checks the number
 * of column names instead, and writes the header. */
static ps_status check_width(merging *m, uint32_t width)
{
    if (m->rows > 0) {
        return width == m->width
                   ? ps_ok()
                   : ps_fail(PS_FAILED_PRECONDITION,
                             "one key has %u values and another %u; in CSV all have as many, so "
                             "choose json",
                             m->width, width);
    }
    m->width = width;
    if (m->conf->column_count > 0 && m->conf->column_count != 1 + (size_t)width) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "there are %zu names of columns for a key with %u values",
                       m->conf->column_count, width);
    }
    for (uint32_t i = 0; i <= width; i++) {
        ps_strbuf_puts(&m->text, i > 0 ? "," : "");
        put_column(m, i);
    }
    ps_strbuf_putc(&m->text, '\n');
    return ps_ok();
}

static ps_status put_csv(merging *m, const ps_keyed *record)
{
    const uint8_t *key = record->at, *at;
    bool is_list;
    uint32_t width = ps_record_value(record, &at, &is_list);
    ps_scalar_value x = ps_record_scalar(&key);
    ps_status st = check_width(m, width);

    put_scalar(m, &m->text, &x);
    for (uint32_t i = 0; i < width; i++) {
        x = ps_record_scalar(&at);
        ps_strbuf_putc(&m->text, ',');
        put_scalar(m, &m->text, &x);
    }
    ps_strbuf_putc(&m->text, '\n');
    return st;
}

/* Writes a record as an object with key and value, or with the columns that have names. */
static ps_status put_json(merging *m, const ps_keyed *record)
{
    const uint8_t *key = record->at, *at;
    bool is_list, is_named = m->conf->column_count > 0;
    uint32_t n = ps_record_value(record, &at, &is_list);
    ps_scalar_value x = ps_record_scalar(&key);

    if (is_named && m->conf->column_count != 1 + (size_t)n) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "there are %zu names of columns for a key with %u values",
                       m->conf->column_count, n);
    }
    ps_strbuf_puts(&m->text, m->rows > 0 ? ",\n{\"" : "[\n{\"");
    put_column(m, 0);
    ps_strbuf_puts(&m->text, "\": ");
    put_scalar(m, &m->text, &x);
    if (!is_named) {
        ps_strbuf_puts(&m->text, is_list ? ", \"value\": [" : ", \"value\": ");
    }
    for (uint32_t i = 0; i < n; i++) {
        x = ps_record_scalar(&at);
        ps_strbuf_puts(&m->text, is_named || i > 0 ? ", " : "");
        if (is_named) {
            ps_strbuf_printf(&m->text, "\"%s\": ", m->conf->columns[i + 1]);
        }
        put_scalar(m, &m->text, &x);
    }
    ps_strbuf_puts(&m->text, is_list && !is_named ? "]}" : "}");
    return ps_ok();
}

/* Writes a row for each record in m->out. If `keeps`, writes none for the last record: more values
 * of its key follow, so it becomes the first record of the next call's input. */
static ps_status put_rows(merging *m, size_t n, bool keeps)
{
    size_t at = 0;
    ps_keyed record;
    ps_status st = ps_ok();

    m->in_n = 0;
    while (ps_is_ok(&st) && ps_record_next(m->out, n, &at, &record)) {
        if (keeps && at == n) {
            m->in_n = record.key_bytes + record.value_bytes;
            memcpy(m->in, record.at, m->in_n);
            break;
        }
        st = (m->conf->is_json ? put_json : put_csv)(m, &record);
        m->rows++;
    }
    if (ps_is_ok(&st)) {
        st = ps_file_writer_add(&m->file, ps_strbuf_text(&m->text), m->text.len);
        ps_strbuf_clear(&m->text);
    }
    return st;
}

/* ---- The merge ---- */

/* Fills m->in with records of all partitions, by key, until it is half full. Sets *goes_on to
 * whether the next call begins with the last key of this one. */
static ps_status gather(merging *m, bool *goes_on)
{
    ps_keyed last = {.at = NULL};
    size_t at = 0;
    ps_status st = ps_ok();

    *goes_on = false;
    if (m->in_n > 0) {
        (void)ps_record_next(m->in, m->in_n, &at, &last);
    }
    while (ps_is_ok(&st) && m->left > 0) {
        const ps_keyed *next = &m->parts[m->heap[0]].now;
        size_t bytes = next->key_bytes + next->value_bytes;

        if (bytes > PS_MERGE_IN_MAX / 2 - m->in_n && m->in_n > 0) {
            *goes_on = last.at != NULL && ps_record_compare(&last, next) == 0;
            break;
        }
        memcpy(m->in + m->in_n, next->at, bytes);
        last = (ps_keyed){.at = m->in + m->in_n, .key_bytes = next->key_bytes};
        m->in_n += bytes;
        st = advance(m);
    }
    return st;
}

static ps_status merge(merging *m)
{
    bool goes_on = false;
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && (m->left > 0 || m->in_n > 0)) {
        size_t n = 0;

        st = gather(m, &goes_on);
        if (ps_is_ok(&st) && ps_clock_us() > m->deadline_us) {
            st = ps_fail(PS_FAILED_PRECONDITION,
                         "%s: reduce and finish take longer than %.3g s for all keys",
                         ps_script_file(m->conf->script), (double)m->conf->within_us / 1e6);
        }
        if (ps_is_ok(&st)) {
            st = ps_executor_merge(m->executor, m->in, m->in_n, goes_on, m->conf->numbers, m->out,
                                   &n);
        }
        if (ps_is_ok(&st)) {
            st = put_rows(m, n, goes_on);
        }
    }
    return st;
}

/* Writes the end of the file: the closing bracket of JSON, or the header of a CSV without rows. */
static ps_status put_end(merging *m)
{
    if (m->conf->is_json) {
        ps_strbuf_puts(&m->text, m->rows > 0 ? "\n]\n" : "[]\n");
    } else if (m->rows == 0) {
        ps_status st =
            check_width(m, m->conf->column_count > 0 ? (uint32_t)m->conf->column_count - 1 : 1);

        (void)st; /* cannot fail: the width follows from the column names */
    }
    return ps_file_writer_add(&m->file, ps_strbuf_text(&m->text), m->text.len);
}

static ps_status write_all(merging *m)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < m->conf->parts && ps_is_ok(&st); i++) {
        st = open_part(m, i);
    }
    for (uint32_t i = m->left / 2; i-- > 0 && ps_is_ok(&st);) {
        sink(m, i);
    }
    if (ps_is_ok(&st)) {
        st = ps_executor_start(m->conf->script, &m->conf->budget, &m->executor);
    }
    if (ps_is_ok(&st)) {
        st = merge(m);
    }
    return ps_is_ok(&st) ? put_end(m) : st;
}

ps_status ps_result_write(const ps_result_conf *conf, const char *path, uint64_t *rows)
{
    merging m = {.conf = conf,
                 .parts = ps_xcalloc(conf->parts, sizeof *m.parts),
                 .heap = ps_xcalloc(conf->parts, sizeof *m.heap),
                 .deadline_us = ps_clock_us() + conf->within_us,
                 .in = ps_xmalloc(PS_MERGE_IN_MAX),
                 .out = ps_xmalloc(PS_MERGE_OUT_MAX)};
    ps_status st = ps_file_writer_open(&m.file, path);

    if (ps_is_ok(&st)) {
        st = write_all(&m);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_commit(&m.file);
        } else {
            ps_file_writer_abandon(&m.file);
        }
    }
    ps_executor_end(m.executor);
    for (uint32_t i = 0; i < conf->parts; i++) {
        if (m.parts[i].bytes != NULL) {
            munmap(m.parts[i].bytes, m.parts[i].n);
        }
    }
    ps_strbuf_fini(&m.text);
    free(m.parts);
    free(m.heap);
    free(m.in);
    free(m.out);
    *rows = m.rows;
    return st;
}
