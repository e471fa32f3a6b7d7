/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - lines for people and for machines, on stderr.
 *
 * As text   11:25:30.123 info  agent: job prepared job=42 slices=12
 * or JSON   {"time":"2026-01-02T11:25:30.123456Z","level":"info","service":"psgd-worker",
 *            "room":"agent","msg":"job prepared","job":"42","slices":12}
 *
 * Text is in local time, JSON in UTC. A line is one write, so lines of several
 * threads and processes do not mix. A message is cut at 2 KiB; control
 * characters in it are escaped, bytes that are not UTF-8 replaced. Log where an
 * error is handled. All functions are for any thread.
 */
#ifndef PS_COMMON_BASE_LOG_H
#define PS_COMMON_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

typedef enum ps_log_level {
    PS_LOG_ERROR, /* something a user asked for failed */
    PS_LOG_WARN,  /* it goes on, but somebody should look */
    PS_LOG_INFO,  /* what happened, a few lines a minute */
    PS_LOG_DEBUG
} ps_log_level;

typedef enum ps_log_format { PS_LOG_TEXT, PS_LOG_JSON } ps_log_format;

/* One more member of a line: text, or a number when text is NULL. */
typedef struct ps_log_field {
    const char *key; /* NULL ends a list; a plain word, not one of the line's own */
    const char *text;
    int64_t number;
} ps_log_field;

#define PS_LOG_STR(k, t)                                                                           \
    {                                                                                              \
        .key = (k), .text = (t)                                                                    \
    }
#define PS_LOG_NUM(k, n)                                                                           \
    {                                                                                              \
        .key = (k), .number = (int64_t)(n)                                                         \
    }
#define PS_LOG_FIELDS(...) ((const ps_log_field[]){__VA_ARGS__, {.key = NULL}})

/* `service` (static text) names the program. Without it: "psgd", info, text.
 * Call before threads start. */
void ps_log_init(const char *service, ps_log_level level, ps_log_format format);

void ps_log_set_level(ps_log_level level);

/* Would a line of this level be written? For messages that cost something. */
bool ps_log_is_on(ps_log_level level);

/* `room` says which part speaks: "agent", "server". */
PS_PRINTF(3, 4) void ps_log(ps_log_level level, const char *room, const char *fmt, ...);

/* The same with fields, e.g.
 *     ps_log_with(PS_LOG_INFO, "agent",
 *                 PS_LOG_FIELDS(PS_LOG_STR("job", id), PS_LOG_NUM("slices", 12)), "prepared");
 */
PS_PRINTF(4, 5)
void ps_log_with(ps_log_level level, const char *room, const ps_log_field *fields, const char *fmt,
                 ...);

/* Also gives every line, as it goes to stderr but without the newline, to
 * `sink`: a job's log. NULL ends that; when this returns the sink before is
 * running no more. One line at a time, on the thread that logs and under a lock
 * of the log: so `sink` must be a leaf, waiting for nothing that logs. Lines
 * that it logs itself go to stderr only, if the log is not quiet. */
typedef void (*ps_log_sink)(void *arg, ps_log_level level, const char *line);
void ps_log_set_sink(ps_log_sink sink, void *arg);

/* Lines that a sink takes go to it alone, and not to stderr: for programs that
 * talk to a person there. */
void ps_log_set_quiet(bool is_quiet);

/* Of "error", "warn", "info", "debug", or of "text", "json"; false for others. */
bool ps_log_level_find(const char *name, ps_log_level *out);
bool ps_log_format_find(const char *name, ps_log_format *out);

#endif
