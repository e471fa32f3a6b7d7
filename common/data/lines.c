/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - see lines.h. */
#include "common/data/lines.h"

#include "common/base/draw.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/data/file_list.h"
#include "common/data/learned.h"
#include "common/data/packed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024 };

/* A file being read. */
typedef struct reader {
    const char *name;
    ps_packed *file;
    char *buffer; /* (cap) */
    size_t at, end, cap;
    uint64_t number; /* number of lines that next_line has returned */
    bool is_over;    /* the rest of the file is in the buffer */
    bool has_parts;  /* lines that are one NUL separate parts, as in PS_LEARNED_TEST */
} reader;

bool ps_record_is_test(uint64_t record, double share)
{
    return ps_draw_unit(ps_draw_key(0, PS_DRAW_SPLIT, 0, 0, 0), record) < share;
}

ps_status ps_line_bad(const ps_line *line, const char *fmt, ...)
{
    char text[PS_STATUS_TEXT_BYTES];
    va_list ap;

    va_start(ap, fmt);
    ps_shorten_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return ps_fail(PS_INVALID_ARGUMENT, "%s: line %llu: %s", PS_SHORT(line->file, 48),
                   (unsigned long long)line->number, text);
}

/* Moves the unread bytes to the front of the buffer and reads up to CHUNK_BYTES of the file behind
 * them. Fails if they are more than PS_LINE_BYTES_MAX and the buffer would have to grow. */
static ps_status fill(reader *r)
{
    size_t held = r->end - r->at, got = 0;
    ps_status st;

    memmove(r->buffer, r->buffer + r->at, held);
    r->at = 0;
    r->end = held;
    if (held + CHUNK_BYTES + 1 > r->cap) {
        if (held > PS_LINE_BYTES_MAX) {
            return ps_fail(
                PS_INVALID_ARGUMENT, "%s: line %llu: longer than %d bytes, expected lines of text",
                PS_SHORT(r->name, 48), (unsigned long long)r->number + 1, PS_LINE_BYTES_MAX);
        }
        r->cap = held + 2 * CHUNK_BYTES + 1;
        r->buffer = ps_xrealloc(r->buffer, r->cap);
    }
    st = ps_packed_read(r->file, r->buffer + r->end, CHUNK_BYTES, &got);
    if (ps_is_ok(&st)) {
        r->end += got;
        r->is_over = got < CHUNK_BYTES;
    }
    return st;
}

/* Returns whether a line is the mark that separates two parts of PS_LEARNED_TEST. */
static bool is_border(const reader *r, const char *line, size_t len)
{
    return r->has_parts && len == 1 && line[0] == '\0';
}

/* Sets *line (len) to the next line of the file, with a NUL behind it, or to NULL if the file has
 * ended. Fails if the line is too long, or has a NUL byte and is no border. */
static ps_status next_line(reader *r, char **line, size_t *len)
{
    ps_status st = ps_ok();
    char *newline = NULL;
    size_t seen = 0, n;

    for (;;) {
        newline = memchr(r->buffer + r->at + seen, '\n', r->end - r->at - seen);
        if (newline != NULL || r->is_over) {
            break;
        }
        seen = r->end - r->at;
        st = fill(r);
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    *line = NULL;
    *len = 0;
    if (newline == NULL && r->at == r->end) {
        return ps_ok();
    }
    *line = r->buffer + r->at;
    n = newline != NULL ? (size_t)(newline - *line) : r->end - r->at;
    r->at += n + (newline != NULL);
    r->number++;
    if (n > 0 && (*line)[n - 1] == '\r') {
        n--;
    }
    (*line)[n] = '\0'; /* the buffer has room for one byte more than is read into it */
    *len = n;
    if (is_border(r, *line, n)) {
        return ps_ok();
    }
    if (n > PS_LINE_BYTES_MAX || memchr(*line, '\0', n) != NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: line %llu: %s, expected lines of text",
                       PS_SHORT(r->name, 48), (unsigned long long)r->number,
                       n > PS_LINE_BYTES_MAX ? "longer than 1 MiB" : "has a NUL byte");
    }
    return ps_ok();
}

static bool is_blank(const char *text, size_t len)
{
    return strspn(text, " \t") == len;
}

/* Reads the further lines of a record that does not end with its first line, and joins all lines in
 * `joined`, to which `line` then points. */
static ps_status join(reader *r, const ps_line_rule *rule, ps_line *line, ps_strbuf *joined)
{
    ps_status st = ps_ok();
    bool is_open = true;

    if (rule->goes_on == NULL || !rule->goes_on(line->text, line->len)) {
        return st;
    }
    ps_strbuf_clear(joined);
    ps_strbuf_append(joined, line->text, line->len);
    do {
        char *text;
        size_t len;

        st = next_line(r, &text, &len);
        if (!ps_is_ok(&st)) {
            return st;
        }
        if (text == NULL || is_border(r, text, len) || joined->len + len > PS_LINE_BYTES_MAX) {
            return ps_line_bad(line, "a quoted field has no closing quote%s",
                               text == NULL ? "" : " within 1 MiB");
        }
        ps_strbuf_putc(joined, '\n');
        ps_strbuf_append(joined, text, len);
        is_open ^= rule->goes_on(text, len);
    } while (is_open);
    line->text = joined->data;
    line->len = joined->len;
    return st;
}

typedef struct walk {
    const ps_data_conf *conf; /* NULL: the walk is over one file, not over a set */
    const ps_line_rule *rule;
    ps_line_fn *fn;
    void *arg;
    /* share of records that are test records (ps_record_is_test); 0: there are test files, or no
     * set */
    double test_share;
    ps_strbuf joined;
} walk;

/* Hands a record or header to the source. While a look learns, hands it to conf->learned first if
 * it is of a training file. If the files are a part of the set, leaves out test records of training
 * files, because PS_LEARNED_TEST has those of all files. */
static ps_status hand_over(walk *w, ps_line *line)
{
    ps_status st = ps_ok();

    if (w->conf != NULL && ps_is_learning(w->conf) &&
        (w->conf->test_files == 0 || line->split == PS_TRAIN)) {
        st =
            ps_learned_see(w->conf->learned, &(ps_learned_record){.file = line->file_index,
                                                                  .is_header = line->is_header,
                                                                  .is_test = line->split == PS_TEST,
                                                                  .text = line->text,
                                                                  .len = line->len});
    } else if (line->learned != NULL && line->split == PS_TEST) {
        return st;
    }
    return ps_is_ok(&st) ? w->fn(w->arg, line) : st;
}

static ps_status read_file(walk *w, reader *r, ps_line *line)
{
    /* the byte order mark with which some programs begin UTF-8 files */
    static const char mark[] = "\xef\xbb\xbf";
    ps_split split = line->split;
    ps_status st = ps_ok();
    bool is_first = true;

    for (;;) {
        st = next_line(r, &line->text, &line->len);
        if (!ps_is_ok(&st) || line->text == NULL) {
            break;
        }
        line->number = r->number;
        if (is_border(r, line->text, line->len)) {
            is_first = true;
            continue;
        }
        if (r->number == 1 && strncmp(line->text, mark, 3) == 0) {
            line->text += 3;
            line->len -= 3;
        }
        if (!w->rule->keeps_blank && is_blank(line->text, line->len)) {
            continue;
        }
        st = join(r, w->rule, line, &w->joined);
        if (!ps_is_ok(&st)) {
            break;
        }
        line->is_header = is_first && w->rule->has_header;
        is_first = false;
        line->split =
            split == PS_TRAIN && !line->is_header && ps_record_is_test(line->record, w->test_share)
                ? PS_TEST
                : split;
        st = hand_over(w, line);
        if (!ps_is_ok(&st)) {
            break;
        }
        line->record += !line->is_header;
    }
    if (ps_is_ok(&st) && is_first) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: is empty, expected lines of text",
                     PS_SHORT(r->name, 48));
    }
    return st;
}

/* Sets the number of a training file's first record from what was learned from all files, if the
 * files here are a part of the set: files before it may then be missing. */
static ps_status place_file(const walk *w, ps_line *line)
{
    if (!ps_has_learned(w->conf) || line->split == PS_TEST) {
        line->learned = NULL;
        return ps_ok();
    }
    line->learned = ps_learned_find(w->conf->learned, line->file);
    if (line->learned == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: is none of the files that were learned from",
                       PS_SHORT(line->file, 80));
    }
    line->record = line->learned->first_record;
    return ps_ok();
}

/* Checks that a file, if it belongs to a part of the set, has as many records as when all files
 * were learned from. */
static ps_status check_file(const ps_line *line)
{
    const ps_learned_file *f = line->learned;

    if (f != NULL && line->record - f->first_record != f->records) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: has %llu records, %llu are expected",
                       PS_SHORT(line->file, 80),
                       (unsigned long long)(line->record - f->first_record),
                       (unsigned long long)f->records);
    }
    return ps_ok();
}

/* Reads a file of the set; line->split says whether it is a training or a test file. */
static ps_status walk_file(walk *w, reader *r, const char *folder, const char *name, ps_line *line)
{
    ps_split split = line->split;
    ps_status st;

    *r = (reader){.name = name, .buffer = r->buffer, .cap = r->cap, .has_parts = r->has_parts};
    line->file = name;
    st = place_file(w, line);
    if (ps_is_ok(&st)) {
        st = ps_packed_open(folder, name, &r->file, NULL);
    }
    if (ps_is_ok(&st)) {
        st = read_file(w, r, line);
        ps_packed_close(r->file);
    }
    line->split = split;
    return ps_is_ok(&st) ? check_file(line) : st;
}

ps_status ps_lines_walk(const ps_data_conf *conf, const char *folder, const ps_line_rule *rule,
                        ps_line_fn *fn, void *arg)
{
    walk w = {.conf = conf, .rule = rule, .fn = fn, .arg = arg};
    reader r = {.cap = 2 * CHUNK_BYTES + 1};
    ps_line line = {.record = 0};
    ps_file_list list = {.train = 0};
    ps_status st = ps_file_list_open(conf, folder, &list);

    w.test_share = conf->test_files > 0 ? 0 : ps_data_number(conf, "test_share");
    r.buffer = ps_xmalloc(r.cap);
    for (uint32_t i = 0; ps_is_ok(&st) && i < list.train + list.test; i++) {
        if (i == list.train) {
            line.record = 0;
        }
        line.split = i < list.train ? PS_TRAIN : PS_TEST;
        line.file_index = line.split == PS_TRAIN ? i : i - list.train;
        st = walk_file(&w, &r, folder, list.names[i], &line);
    }
    if (ps_is_ok(&st) && ps_has_learned(conf) && conf->test_files == 0) {
        line = (ps_line){.split = PS_TEST};
        r.has_parts = true;
        st = walk_file(&w, &r, conf->learned->folder, PS_LEARNED_TEST, &line);
    }
    if (ps_is_ok(&st) && ps_is_learning(conf)) {
        conf->learned->has_walked = true;
    }
    free(r.buffer);
    ps_file_list_close(&list);
    ps_strbuf_fini(&w.joined);
    return st;
}

ps_status ps_lines_of_file(const char *folder, const char *name, ps_line_fn *fn, void *arg)
{
    static const ps_line_rule rule = {.keeps_blank = true};
    walk w = {.rule = &rule, .fn = fn, .arg = arg};
    reader r = {.name = name, .cap = 2 * CHUNK_BYTES + 1};
    ps_line line = {.file = name};
    ps_status st = ps_packed_open(folder, name, &r.file, NULL);

    if (!ps_is_ok(&st)) {
        return st;
    }
    r.buffer = ps_xmalloc(r.cap);
    st = read_file(&w, &r, &line);
    ps_packed_close(r.file);
    free(r.buffer);
    ps_strbuf_fini(&w.joined);
    return st;
}
