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
    PS_KIND_LIST      /* strings; may be given several times */
} ps_option_kind;

typedef struct ps_option_list {
    const char *const *items;
    size_t n;
} ps_option_list;

typedef struct ps_option {
    /* "log-level" is --log-level; in a file log-level, log_level or log: {level} */
    const char *name;
    ps_option_kind kind;
    size_t offset;       /* offset of the member in bytes */
    char letter;         /* 'l' is -l; 0: none */
    bool is_required;    /* true: it is an error if neither flag, variable nor file gives it */
    const char *env;     /* environment variable; NULL: none. A list is split at commas */
    const char *value;   /* default as text; NULL: NULL, 0, false or an empty list */
    double min, max;     /* bounds of an int, double or duration (in microseconds); both 0: none */
    const char *choices; /* allowed strings, as "text|json"; NULL: any */
    const char *metavar; /* name of the value in the help; NULL: a name by kind */
    const char *help;    /* "" or a sentence without its full stop; NULL hides the option */
} ps_option;

/* Ends a table. */
#define PS_OPTION_END                                                                              \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* The offset of a member; a compile error unless it has this type. */
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

/* Sets the member of `base` from `text`. Strings are kept, not copied. Not for lists, whose items
 * ps_option_check checks one by one.
 *
 * Fails with INVALID_ARGUMENT, which has the text and what is allowed; `base` is then unchanged.
 */
PS_MUST_USE ps_status ps_option_set(const ps_option *option, const char *text, void *base);

/* Checks whether the option allows `text`. Errors are those of ps_option_set. */
PS_MUST_USE ps_status ps_option_check(const ps_option *option, const char *text);

/* Returns the name of the value in the help: its metavar, or "INT", "DURATION", ... */
const char *ps_option_metavar(const ps_option *option);

#endif
