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
    size_t i = (size_t)code; /* the remote may send any integer */

    return i < sizeof names / sizeof names[0] ? names[i] : "code out of range";
}

/* Removes the beginning of a character that the end of the buffer has cut, because a status
 * travels in UTF-8 fields. */
static void trim(ps_status *st)
{
    size_t n = strlen(st->text), back = 0;
    unsigned char lead;

    if (n < sizeof st->text - 1) {
        return;
    }
    while (back < 3 && ((unsigned char)st->text[n - 1 - back] & 0xc0) == 0x80) {
        back++;
    }
    lead = (unsigned char)st->text[n - 1 - back];
    if ((lead >= 0xc0 && back < 1) || (lead >= 0xe0 && back < 2) || (lead >= 0xf0 && back < 3)) {
        st->text[n - 1 - back] = '\0';
    }
}

ps_status ps_fail(ps_code code, const char *fmt, ...)
{
    ps_status st = {.code = code};
    va_list ap;

    assert(code != PS_OK);
    va_start(ap, fmt);
    vsnprintf(st.text, sizeof st.text, fmt, ap);
    va_end(ap);
    trim(&st);
    return st;
}

/* Appends ": " and the text, cut at the end of the buffer. */
static void append(ps_status *st, const char *text)
{
    size_t n = strlen(st->text);
    size_t room = sizeof st->text - 1 - n;
    size_t more = strnlen(text, room);

    if (room <= 2) {
        return;
    }
    memcpy(st->text + n, ": ", 2);
    more = more < room - 2 ? more : room - 2;
    memcpy(st->text + n + 2, text, more);
    st->text[n + 2 + more] = '\0';
    trim(st);
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
    vsnprintf(st.text, sizeof st.text, fmt, ap);
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
    vsnprintf(out.text, sizeof out.text, fmt, ap);
    va_end(ap);
    append(&out, st.text);
    return out;
}
