/* SPDX-License-Identifier: Apache-2.0 */
/* option.c - see option.h. */
#include "common/base/option.h"

#include "common/base/scalar.h"
#include "common/base/shorten.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT_BYTES = PS_DURATION_BYTES };

/* The value of an option of any kind. */
typedef union value {
    const char *text;
    int64_t whole;
    double real;
    bool is_on;
} value;

static bool has_range(const ps_option *option)
{
    return option->min != 0.0 || option->max != 0.0;
}

static void format_limit(const ps_option *option, double limit, char out[LIMIT_BYTES])
{
    if (option->kind == PS_KIND_DURATION) {
        ps_scalar_format_duration((int64_t)limit, out);
    } else {
        snprintf(out, LIMIT_BYTES, "%.15g", limit);
    }
}

static ps_status bad_range(const ps_option *option, const char *text)
{
    char min[LIMIT_BYTES], max[LIMIT_BYTES];

    format_limit(option, option->min, min);
    format_limit(option, option->max, max);
    return ps_fail(PS_INVALID_ARGUMENT, "\"%s\": from %s to %s is allowed", PS_SHORT(text, 32),
                   PS_SHORT(min, 24), PS_SHORT(max, 24));
}

/* Returns whether `text` is one of "a|b|c". */
static bool is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);

    for (const char *p = choices;; p += strcspn(p, "|") + 1) {
        if (strcspn(p, "|") == n && strncmp(p, text, n) == 0) {
            return true;
        }
        if (p[strcspn(p, "|")] == '\0') {
            return false;
        }
    }
}

static ps_status bad_kind(const char *text, const char *what)
{
    return ps_fail(PS_INVALID_ARGUMENT, "\"%s\" is not %s", PS_SHORT(text, 32), what);
}

static ps_status parse(const ps_option *option, const char *text, value *out)
{
    double number = 0.0;

    switch (option->kind) {
    case PS_KIND_STRING:
    case PS_KIND_LIST:
        out->text = text;
        if (option->choices != NULL && !is_choice(option->choices, text)) {
            return ps_fail(PS_INVALID_ARGUMENT, "\"%s\": one of %s is allowed", PS_SHORT(text, 32),
                           option->choices);
        }
        return ps_ok();
    case PS_KIND_BOOL:
        if (!ps_scalar_bool(text, &out->is_on)) {
            return bad_kind(text, "true or false");
        }
        return ps_ok();
    case PS_KIND_DOUBLE:
        if (!ps_scalar_double(text, &out->real)) {
            return bad_kind(text, "a number");
        }
        number = out->real;
        break;
    case PS_KIND_INT:
        if (!ps_scalar_int(text, &out->whole)) {
            return bad_kind(text, "a whole number");
        }
        number = (double)out->whole;
        break;
    case PS_KIND_DURATION:
        if (!ps_scalar_duration(text, &out->whole)) {
            return bad_kind(text, "a duration like 10s, 250ms or 5m");
        }
        number = (double)out->whole;
        break;
    }
    if (has_range(option) && (number < option->min || number > option->max)) {
        return bad_range(option, text);
    }
    return ps_ok();
}

ps_status ps_option_check(const ps_option *option, const char *text)
{
    value v;

    return parse(option, text, &v);
}

ps_status ps_option_set(const ps_option *option, const char *text, void *base)
{
    char *member = (char *)base + option->offset;
    value v = {.text = NULL};
    ps_status st = parse(option, text, &v);

    assert(option->kind != PS_KIND_LIST);
    if (!ps_is_ok(&st)) {
        return st;
    }
    switch (option->kind) {
    case PS_KIND_STRING:
    case PS_KIND_LIST:
        memcpy(member, &v.text, sizeof v.text);
        break;
    case PS_KIND_INT:
    case PS_KIND_DURATION:
        memcpy(member, &v.whole, sizeof v.whole);
        break;
    case PS_KIND_DOUBLE:
        memcpy(member, &v.real, sizeof v.real);
        break;
    case PS_KIND_BOOL:
        memcpy(member, &v.is_on, sizeof v.is_on);
        break;
    }
    return st;
}

const char *ps_option_metavar(const ps_option *option)
{
    static const char *const names[] = {
        [PS_KIND_STRING] = "TEXT", [PS_KIND_INT] = "INT",           [PS_KIND_DOUBLE] = "NUMBER",
        [PS_KIND_BOOL] = "BOOL",   [PS_KIND_DURATION] = "DURATION", [PS_KIND_LIST] = "TEXT"};

    if (option->metavar != NULL) {
        return option->metavar;
    }
    return option->choices != NULL ? option->choices : names[option->kind];
}
