/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - see status.h. */
#include "common/base/status.h"

#include "common/base/shorten.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(ps_status) == 512, "a status is eight cache lines");

const char *ps_code_name(ps_code code)
{
    static const char *const names[] = {
#define X(name, value, text) [PS_##name] = (text),
        PS_CODES(X)
#undef X
    };
    size_t i = (size_t)code; /* any integer, as codes of a remote end are shown too */

    return i < sizeof names / sizeof names[0] ? names[i] : "code out of range";
}

ps_status ps_fail(ps_code code, const char *fmt, ...)
{
    ps_status st = {.code = code};
    va_list ap;

    assert(code != PS_OK);
    va_start(ap, fmt);
    ps_shorten_vprint(st.text, sizeof st.text, fmt, ap);
    va_end(ap);
    return st;
}

/* Appends ": " and `text` to the status's text. If the result is too long, its middle is left
 * out. */
static void append(ps_status *st, const char *text)
{
    char both[2 * sizeof st->text + 2];
    size_t n = strlen(st->text);

    memcpy(both, st->text, n);
    memcpy(both + n, ": ", 2);
    ps_shorten(both + n + 2, sizeof st->text, text);
    ps_shorten(st->text, sizeof st->text, both);
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
    case EDQUOT:
    case EMFILE:
    case ENFILE:
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
    char space[64];
    const char *why = strerror_r(err, space, sizeof space); /* GNU's strerror_r: never NULL */
    va_list ap;

    va_start(ap, fmt);
    ps_shorten_vprint(st.text, sizeof st.text, fmt, ap);
    va_end(ap);
    append(&st, why);
    return st;
}

ps_status ps_wrap(ps_status st, const char *fmt, ...)
{
    ps_status out = {.code = st.code};
    va_list ap;

    if (ps_is_ok(&st)) {
        return st;
    }
    va_start(ap, fmt);
    ps_shorten_vprint(out.text, sizeof out.text, fmt, ap);
    va_end(ap);
    append(&out, st.text);
    return out;
}
