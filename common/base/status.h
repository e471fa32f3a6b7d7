/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the only error type of this program.
 *
 * A ps_status is a plain value: a code with gRPC's numbering and a line of text for people. It owns
 * nothing, so assignment copies it and dropping it leaks nothing. Text longer than the buffer loses
 * its middle (shorten.h).
 *
 * This header includes nothing of psgd and nothing of gRPC, so every file may include it.
 */
#ifndef PS_COMMON_BASE_STATUS_H
#define PS_COMMON_BASE_STATUS_H

#include <stdbool.h>

#define PS_MUST_USE __attribute__((warn_unused_result))
#define PS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* name, value on the wire, text. common/rpc asserts that the values are gRPC's. */
// clang-format off
#define PS_CODES(X)                                            \
    X(OK,                  0,  "ok")                           \
    X(CANCELLED,           1,  "cancelled")                    \
    X(UNKNOWN,             2,  "unknown")                      \
    X(INVALID_ARGUMENT,    3,  "invalid argument")             \
    X(DEADLINE_EXCEEDED,   4,  "deadline exceeded")            \
    X(NOT_FOUND,           5,  "not found")                    \
    X(ALREADY_EXISTS,      6,  "already exists")               \
    X(PERMISSION_DENIED,   7,  "permission denied")            \
    X(RESOURCE_EXHAUSTED,  8,  "resource exhausted")           \
    X(FAILED_PRECONDITION, 9,  "failed precondition")          \
    X(ABORTED,             10, "aborted")                      \
    X(OUT_OF_RANGE,        11, "out of range")                 \
    X(UNIMPLEMENTED,       12, "unimplemented")                \
    X(INTERNAL,            13, "internal")                     \
    X(UNAVAILABLE,         14, "unavailable")                  \
    X(DATA_LOSS,           15, "data loss")                    \
    X(UNAUTHENTICATED,     16, "unauthenticated")
// clang-format on

typedef enum ps_code {
#define X(name, value, text) PS_##name = (value),
    PS_CODES(X)
#undef X
} ps_code;

enum { PS_STATUS_TEXT_BYTES = 508 };

typedef struct ps_status {
    ps_code code;
    char text[PS_STATUS_TEXT_BYTES]; /* "" if code is PS_OK */
} ps_status;

static inline ps_status ps_ok(void)
{
    ps_status st;

    st.code = PS_OK;
    st.text[0] = '\0'; /* the rest is nobody's: most calls succeed, and zeros take time */
    return st;
}
static inline bool ps_is_ok(const ps_status *st)
{
    return st->code == PS_OK;
}

/* Returns a failure. `code` must not be PS_OK. */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_fail(ps_code code, const char *fmt, ...);

/* Returns a failure for an errno value and appends strerror's text. */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_fail_errno(int err, const char *fmt, ...);

/* Prefixes a failure with what was being done: "load shard 3: open x: ...". Returns a success
 * unchanged. */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_wrap(ps_status st, const char *fmt, ...);

/* Returns the name of a code as static text. Never NULL, also for values outside the enum. */
const char *ps_code_name(ps_code code);

#endif
