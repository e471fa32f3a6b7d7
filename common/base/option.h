/* SPDX-License-Identifier: Apache-2.0 */
/* option.h - one setting of a program, as a line of a const table.
 *
 *     typedef struct settings {
 *         const char *listen;
 *         int64_t grace_us;
 *         ps_option_list labels;
 *     } settings;
 *
 *     static const ps_option options[] = {
 *         PS_OPTION_STRING(settings, listen, .name = "listen", .letter = 'l',
 *                          .env = "PSGD_LISTEN", .value = "127.0.0.1:15387",
 *                          .metavar = "HOST:PORT", .help = "where to listen"),
 *         PS_OPTION_DURATION(settings, grace_us, .name = "grace", .value = "10s",
 *                            .min = 0, .max = 3600e6, .help = "time to drain"),
 *         PS_OPTION_LIST(settings, labels, .name = "label", .help = "..."),
 *         PS_OPTION_END,
 *     };
 *
 * A member of another type than its option is a compile error.
 */
#ifndef PS_COMMON_BASE_OPTION_H
#define PS_COMMON_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

typedef enum ps_option_kind {
    PS_KIND_STRING,
    PS_KIND_INT,
    PS_KIND_DOUBLE,
    PS_KIND_BOOL,
    PS_KIND_DURATION, /* "10s", "250ms"; int64_t microseconds */
    PS_KIND_LIST      /* strings, given several times */
} ps_option_kind;

typedef struct ps_option_list {
    const char *const *items;
    size_t n;
} ps_option_list;

typedef struct ps_option {
    const char *name; /* "log-level": --log-level; in a file log-level, log_level or log: {level} */
    ps_option_kind kind;
    size_t offset;       /* of the member */
    char letter;         /* -l; 0: none */
    bool is_required;    /* an error when nothing gives it */
    const char *env;     /* variable of the environment; NULL: none. A list's is split at commas */
    const char *value;   /* default as text; NULL: NULL, 0, false, an empty list */
    double min, max;     /* of int, double, duration (in microseconds); both 0: any that fit */
    const char *choices; /* of strings and lists: "text|json"; NULL: any */
    const char *metavar; /* in the help; NULL: by kind */
    const char *help;    /* "" or a sentence without its full stop; NULL hides it from the help */
} ps_option;

/* A table ends with this. */
#define PS_OPTION_END                                                                              \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* The offset of a member, if it has the type. */
#define PS_OPTION_AT(s, m, type) _Generic(((s *)0)->m, type : offsetof(s, m))

// clang-format off
#define PS_OPTION_STRING(s, m, ...) \
    {.kind = PS_KIND_STRING, .offset = PS_OPTION_AT(s, m, const char *), __VA_ARGS__}
#define PS_OPTION_INT(s, m, ...) \
    {.kind = PS_KIND_INT, .offset = PS_OPTION_AT(s, m, int64_t), __VA_ARGS__}
#define PS_OPTION_DOUBLE(s, m, ...) \
    {.kind = PS_KIND_DOUBLE, .offset = PS_OPTION_AT(s, m, double), __VA_ARGS__}
#define PS_OPTION_BOOL(s, m, ...) \
    {.kind = PS_KIND_BOOL, .offset = PS_OPTION_AT(s, m, bool), __VA_ARGS__}
#define PS_OPTION_DURATION(s, m, ...) \
    {.kind = PS_KIND_DURATION, .offset = PS_OPTION_AT(s, m, int64_t), __VA_ARGS__}
#define PS_OPTION_LIST(s, m, ...) \
    {.kind = PS_KIND_LIST, .offset = PS_OPTION_AT(s, m, ps_option_list), __VA_ARGS__}
// clang-format on

/* Sets the member of `base` from text. Strings are kept, not copied. Not for
 * lists, whose items ps_option_check looks at one by one.
 *
 * INVALID_ARGUMENT with the text and what is allowed; `base` is then as before. */
PS_MUST_USE ps_status ps_option_set(const ps_option *option, const char *text, void *base);

/* Would it be allowed? */
PS_MUST_USE ps_status ps_option_check(const ps_option *option, const char *text);

/* What its value is called in the help: its metavar, or "INT", "DURATION", ... */
const char *ps_option_metavar(const ps_option *option);

#endif
