/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - see status.h. */
#include "common/base/status.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(ps_status) == 128, "a status is two cache lines");

const char *ps_code_name(ps_code code)
{
    static const char *const names[] = {
#define X(name, value, text) [PS_##name] = (text),
        PS_CODES(X)
#undef X
    };
    size_t i = (size_t)code; /* a peer may send any integer */

    return i < sizeof names / sizeof names[0] ? names[i] : "code out of range";
}

ps_status ps_fail(ps_code code, const char *fmt, ...)
{
    ps_status st = {.code = code};
    va_list ap;

    assert(code != PS_OK);
    va_start(ap, fmt);
    vsnprintf(st.text, sizeof st.text, fmt, ap);
    va_end(ap);
    return st;
}

static ps_code code_of_errno(int err)
{
    switch (err) {
    case ENOENT:
        return PS_NOT_FOUND;
    case EEXIST:
        return PS_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
        return PS_PERMISSION_DENIED;
    case EINVAL:
        return PS_INVALID_ARGUMENT;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
        return PS_RESOURCE_EXHAUSTED;
    case ETIMEDOUT:
        return PS_DEADLINE_EXCEEDED;
    case ECONNREFUSED:
    case ECONNRESET:
        return PS_UNAVAILABLE;
    default:
        return PS_UNKNOWN;
    }
}

ps_status ps_fail_errno(int err, const char *fmt, ...)
{
    ps_status st = {.code = code_of_errno(err)};
    char why[64];
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    vsnprintf(st.text, sizeof st.text, fmt, ap);
    va_end(ap);
    n = strlen(st.text);
    if (strerror_r(err, why, sizeof why) != 0) {
        snprintf(why, sizeof why, "errno %d", err);
    }
    snprintf(st.text + n, sizeof st.text - n, ": %s", why);
    return st;
}

ps_status ps_wrap(ps_status st, const char *fmt, ...)
{
    ps_status out = {.code = st.code};
    va_list ap;
    size_t n;

    if (ps_is_ok(&st)) {
        return st;
    }
    va_start(ap, fmt);
    vsnprintf(out.text, sizeof out.text, fmt, ap);
    va_end(ap);
    n = strlen(out.text);
    snprintf(out.text + n, sizeof out.text - n, ": %s", st.text);
    return out;
}
