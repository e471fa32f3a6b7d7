/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - writes log lines to stderr, for people or for machines.
 *
 *   Text   11:25:30.123 info  agent: job prepared job=42 slices=12
 *   JSON   {"time":"2026-01-02T11:25:30.123456Z","level":"info","service":"psgd-worker",
 *           "room":"agent","msg":"job prepared","job":"42","slices":12}
 *
 * Text is in local time, JSON in UTC. Each line is one write, so lines of several
 * threads and processes do not mix. A message is cut at 2 KiB. Control characters
 * are escaped; bytes that are not UTF-8 are replaced. Log an error where it is
 * handled. All functions may be called on any thread.
 */
#ifndef PS_COMMON_BASE_LOG_H
#define PS_COMMON_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

typedef enum ps_log_level {
    PS_LOG_ERROR, /* something that a user asked for has failed */
    PS_LOG_WARN,  /* the program continues, but an operator should investigate */
    PS_LOG_INFO,  /* what has happened; a few lines a minute */
    PS_LOG_DEBUG
} ps_log_level;

typedef enum ps_log_format { PS_LOG_TEXT, PS_LOG_JSON } ps_log_format;

/* A further member of a line: a text, or a number if text is NULL. */
typedef struct ps_log_field {
    const char *key; /* one word, not a member that every line has; NULL ends a list */
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

/* Sets the name of the program (static text), the level and the format. The defaults are "psgd",
 * info, text. Call it before threads start. */
void ps_log_init(const char *service, ps_log_level level, ps_log_format format);

/* Sets the most detailed level that is written. */
void ps_log_set_level(ps_log_level level);

/* Returns whether a line of this level would be written. For messages that are expensive to
 * make. */
bool ps_log_is_on(ps_log_level level);

/* Writes a line. `room` names the part of the program, such as "agent" or "server". */
PS_PRINTF(3, 4) void ps_log(ps_log_level level, const char *room, const char *fmt, ...);

/* Writes a line with further members, for example
 *     ps_log_with(PS_LOG_INFO, "agent",
 *                 PS_LOG_FIELDS(PS_LOG_STR("job", id), PS_LOG_NUM("slices", 12)), "prepared"); */
PS_PRINTF(4, 5)
void ps_log_with(ps_log_level level, const char *room, const ps_log_field *fields, const char *fmt,
                 ...);

/* Receives a line, without the newline, on the thread that logs and under the lock of the log. So
 * it must not wait for anything that logs. What the sink itself logs does not come back to it: it
 * goes to stderr, unless the log is quiet. */
typedef void (*ps_log_sink)(void *arg, ps_log_level level, const char *line);

/* Passes every line of the levels that are written to `sink` too, as a job's log needs it; NULL: to
 * none. When this returns, the previous sink runs no more. Not to be called by a sink. */
void ps_log_set_sink(ps_log_sink sink, void *arg);

/* Keeps the newest lines in a buffer of `bytes` bytes. Call it once, before threads start. */
void ps_log_keep(size_t bytes);

/* Copies the newest lines that ps_log_keep has kept, oldest first, each whole and with its newline,
 * at most `cap` bytes. Returns how many bytes. */
size_t ps_log_recent(char *out, size_t cap);

/* Sets whether lines that a sink takes are kept off stderr, for programs that talk to a person
 * there. */
void ps_log_set_quiet(bool is_quiet);

/* Finds the level "error", "warn", "info" or "debug". Returns false for any other name. */
bool ps_log_level_find(const char *name, ps_log_level *out);

/* Finds the format "text" or "json". Returns false for any other name. */
bool ps_log_format_find(const char *name, ps_log_format *out);

#endif
