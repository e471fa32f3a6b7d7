/* SPDX-License-Identifier: Apache-2.0 */
/* document.c - see document.h. Recursive descent turns libyaml's events into jansson values. The
 * depth is checked on the way down. */
#include "common/base/document.h"

#include "common/base/files.h"
#include "common/base/scalar.h"
#include "common/base/shorten.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current event */
    bool has_event;
} reader;

static ps_status bad(yaml_mark_t mark, const char *why)
{
    return ps_fail(PS_INVALID_ARGUMENT, "line %zu, column %zu: %s", mark.line + 1, mark.column + 1,
                   why);
}

static ps_status bad_here(const reader *r, const char *why)
{
    return bad(r->event.start_mark, why);
}

static ps_status next(reader *r)
{
    if (r->has_event) {
        yaml_event_delete(&r->event);
        r->has_event = false;
    }
    if (yaml_parser_parse(&r->parser, &r->event) == 0) {
        const yaml_parser_t *p = &r->parser;

        if (p->error == YAML_MEMORY_ERROR) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory to read YAML");
        }
        return bad(p->problem_mark, p->problem == NULL ? "not YAML" : p->problem);
    }
    r->has_event = true;
    return ps_ok();
}

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns whether `text` is a decimal number that overflows to infinity, such as 1e999. */
static bool is_too_large(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    return isinf(value) && *end == '\0' && strpbrk(text, "0123456789") != NULL;
}

/* Stores the number that `text` is in *out, or NULL if `text` is no number. Fails if the number is
 * infinite or NaN, too large for a double, or whole and does not fit 64 bits. */
static ps_status number_of(const reader *r, const char *text, json_t **out)
{
    static const char *const not_finite[] = {".inf",  ".Inf",  ".INF",  "-.inf", "-.Inf", "-.INF",
                                             "+.inf", "+.Inf", "+.INF", ".nan",  ".NaN",  ".NAN"};
    int64_t whole;
    double real;

    *out = NULL;
    if (ps_scalar_int(text, &whole)) {
        *out = json_integer(whole);
    } else if (ps_scalar_double(text, &real)) {
        if (strpbrk(text, ".eE") == NULL) {
            return bad_here(r, "the whole number does not fit 64 bits");
        }
        *out = json_real(real);
    } else if (is_too_large(text) ||
               is_one_of(text, not_finite, sizeof not_finite / sizeof not_finite[0])) {
        return bad_here(r, "a number must be finite");
    }
    return ps_ok();
}

static ps_status plain_of(const reader *r, const char *text, json_t **out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const trues[] = {"true", "True", "TRUE"};
    static const char *const falses[] = {"false", "False", "FALSE"};

    if (is_one_of(text, nulls, sizeof nulls / sizeof nulls[0])) {
        *out = json_null();
        return ps_ok();
    }
    if (is_one_of(text, trues, sizeof trues / sizeof trues[0])) {
        *out = json_true();
        return ps_ok();
    }
    if (is_one_of(text, falses, sizeof falses / sizeof falses[0])) {
        *out = json_false();
        return ps_ok();
    }
    return number_of(r, text, out);
}

/* Refuses anchors, and all tags but !!str and !, which both make a value text. */
static ps_status check_marks(const reader *r, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL) {
        return bad_here(r, "anchors (&) are not allowed");
    }
    if (tag != NULL && strcmp((const char *)tag, "!") != 0 &&
        strcmp((const char *)tag, YAML_STR_TAG) != 0) {
        return bad_here(r, "tags (!) are not allowed");
    }
    return ps_ok();
}

/* Converts the current scalar: plain text may be a number, a bool or null, all other scalars are
 * text. Refuses a NUL. libyaml has checked that the text is UTF-8. */
static ps_status scalar_of(const reader *r, json_t **out)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t n = r->event.data.scalar.length;
    ps_status st = check_marks(r, r->event.data.scalar.anchor, r->event.data.scalar.tag);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (memchr(text, '\0', n) != NULL) {
        return bad_here(r, "text may not hold a NUL");
    }
    *out = NULL;
    if (r->event.data.scalar.plain_implicit != 0 && r->event.data.scalar.tag == NULL) {
        st = plain_of(r, text, out);
    }
    if (ps_is_ok(&st) && *out == NULL) {
        *out = json_stringn(text, n);
        if (*out == NULL) {
            st = bad_here(r, "text is not UTF-8");
        }
    }
    return st;
}

static ps_status value_of(reader *r, int depth, json_t **out);

static ps_status sequence_of(reader *r, int depth, json_t **out)
{
    json_t *array = json_array();
    ps_status st = next(r);

    while (ps_is_ok(&st) && r->event.type != YAML_SEQUENCE_END_EVENT) {
        json_t *item = NULL;

        st = value_of(r, depth + 1, &item);
        if (ps_is_ok(&st)) {
            json_array_append_new(array, item);
            st = next(r);
        }
    }
    if (!ps_is_ok(&st)) {
        json_decref(array);
        return st;
    }
    *out = array;
    return st;
}

/* Adds a member to `object`. The current event is its key; its value follows. The current event is
 * then the last one of the value. */
static ps_status member_of(reader *r, int depth, json_t *object)
{
    json_t *value = NULL;
    char *key = NULL;
    ps_status st;

    if (r->event.type != YAML_SCALAR_EVENT) {
        return bad_here(r, "a key must be a word");
    }
    st = check_marks(r, r->event.data.scalar.anchor, r->event.data.scalar.tag);
    if (!ps_is_ok(&st)) {
        return st;
    }
    key = strdup((const char *)r->event.data.scalar.value);
    if (key == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory to read YAML");
    }
    if (strlen(key) != r->event.data.scalar.length) {
        st = bad_here(r, "a key may not hold a NUL");
    } else if (json_object_get(object, key) != NULL) {
        st = ps_fail(PS_INVALID_ARGUMENT, "line %zu, column %zu: key \"%s\" stands here twice",
                     r->event.start_mark.line + 1, r->event.start_mark.column + 1,
                     PS_SHORT(key, 40));
    } else {
        st = next(r);
    }
    if (ps_is_ok(&st)) {
        st = value_of(r, depth + 1, &value);
    }
    if (ps_is_ok(&st) && json_object_set_new(object, key, value) != 0) {
        st = bad_here(r, "a key is not UTF-8");
    }
    free(key);
    return st;
}

static ps_status mapping_of(reader *r, int depth, json_t **out)
{
    json_t *object = json_object();
    ps_status st = next(r);

    while (ps_is_ok(&st) && r->event.type != YAML_MAPPING_END_EVENT) {
        st = member_of(r, depth, object);
        if (ps_is_ok(&st)) {
            st = next(r);
        }
    }
    if (!ps_is_ok(&st)) {
        json_decref(object);
        return st;
    }
    *out = object;
    return st;
}

static ps_status too_deep(const reader *r)
{
    return ps_fail(PS_INVALID_ARGUMENT, "line %zu, column %zu: more than %d levels",
                   r->event.start_mark.line + 1, r->event.start_mark.column + 1, PS_TREE_MAX_DEPTH);
}

/* Converts the value that starts at the current event. The current event is then the last one of
 * the value. */
static ps_status value_of(reader *r, int depth, json_t **out)
{
    ps_status st;

    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        return scalar_of(r, out);
    case YAML_SEQUENCE_START_EVENT:
        if (depth >= PS_TREE_MAX_DEPTH) {
            return too_deep(r);
        }
        st = check_marks(r, r->event.data.sequence_start.anchor, r->event.data.sequence_start.tag);
        return ps_is_ok(&st) ? sequence_of(r, depth, out) : st;
    case YAML_MAPPING_START_EVENT:
        if (depth >= PS_TREE_MAX_DEPTH) {
            return too_deep(r);
        }
        st = check_marks(r, r->event.data.mapping_start.anchor, r->event.data.mapping_start.tag);
        return ps_is_ok(&st) ? mapping_of(r, depth, out) : st;
    case YAML_ALIAS_EVENT:
        return bad_here(r, "aliases (*) are not allowed");
    default:
        return bad_here(r, "a value is missing");
    }
}

/* Reads the only document: the events stream-start, document-start, those of a value, document-end
 * and stream-end. Without a document *out is null. Fails if there is a second document. */
static ps_status document_of(reader *r, json_t **out)
{
    json_t *value = NULL;
    ps_status st = next(r);

    if (ps_is_ok(&st)) {
        st = next(r);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (r->event.type == YAML_STREAM_END_EVENT) {
        *out = json_null();
        return st;
    }
    st = next(r);
    if (ps_is_ok(&st)) {
        st = value_of(r, 0, &value);
    }
    if (ps_is_ok(&st)) {
        st = next(r); /* document-end */
    }
    if (ps_is_ok(&st)) {
        st = next(r);
    }
    if (ps_is_ok(&st) && r->event.type != YAML_STREAM_END_EVENT) {
        st = bad_here(r, "a second document begins");
    }
    if (!ps_is_ok(&st)) {
        json_decref(value);
        return st;
    }
    *out = value;
    return st;
}

static ps_status parse_yaml(const char *text, size_t n, json_t **out)
{
    reader r = {.has_event = false};
    ps_status st;

    if (yaml_parser_initialize(&r.parser) == 0) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory to read YAML");
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    st = document_of(&r, out);
    if (r.has_event) {
        yaml_event_delete(&r.event);
    }
    yaml_parser_delete(&r.parser);
    return st;
}

/* Checks the nesting of JSON text before jansson parses it. Other errors are left to jansson. */
static ps_status check_depth(const char *text, size_t n)
{
    size_t line = 1, line_at = 0, depth = 0;
    bool is_string = false;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            line++;
            line_at = i + 1;
        }
        if (is_string && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            is_string = !is_string;
        } else if (!is_string && (text[i] == '[' || text[i] == '{') &&
                   depth++ == PS_TREE_MAX_DEPTH) {
            return ps_fail(PS_INVALID_ARGUMENT, "line %zu, column %zu: more than %d levels", line,
                           i - line_at + 1, PS_TREE_MAX_DEPTH);
        } else if (!is_string && depth > 0 && (text[i] == ']' || text[i] == '}')) {
            depth--;
        }
    }
    return ps_ok();
}

static ps_status parse_json(const char *text, size_t n, json_t **out)
{
    json_error_t why;
    ps_status st = check_depth(text, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    return *out != NULL ? st
                        : ps_fail(PS_INVALID_ARGUMENT, "line %d, column %d: %s", why.line,
                                  why.column, why.text);
}

ps_status ps_document_parse(const char *text, size_t n, json_t **out)
{
    size_t at = 0;

    if (n > PS_TREE_MAX_BYTES) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "more than %d bytes", PS_TREE_MAX_BYTES);
    }
    while (at < n && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0') {
        at++;
    }
    if (at == n || (text[at] != '{' && text[at] != '[')) {
        return parse_yaml(text, n, out);
    }
    return parse_json(text, n, out);
}

ps_status ps_document_parse_file(const char *path, json_t **out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    char *text = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(is_stdin ? "/dev/stdin" : path, PS_TREE_MAX_BYTES, &text, &n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_wrap(ps_document_parse(text, n, out), "%s",
                 is_stdin ? "standard input" : PS_PATH_SHOWN(path));
    free(text);
    return st;
}
