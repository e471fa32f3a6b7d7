/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - see error.h. */
#include "common/rpc/error.h"

#include "common/base/shorten.h"

#include <stdarg.h>
#include <stdio.h>

static const char *reason_of_code(ps_code code)
{
    static const char *const names[] = {
#define X(name, value, text) [PS_##name] = #name,
        PS_CODES(X)
#undef X
    };
    size_t i = (size_t)code; /* in an error from another process it may be any integer */

    return i < sizeof names / sizeof names[0] ? names[i] : "UNKNOWN";
}

void ps_error_init(ps_error *e, ps_status status, const char *reason)
{
    e->status = status;
    snprintf(e->reason, sizeof e->reason, "%s",
             reason != NULL && reason[0] != '\0' ? reason : reason_of_code(status.code));
    e->meta_count = 0;
    e->violation_count = 0;
    e->violations_dropped = 0;
}

void ps_error_meta(ps_error *e, const char *key, const char *fmt, ...)
{
    va_list ap;

    if (e->meta_count == PS_ERROR_META_MAX) {
        return;
    }
    snprintf(e->meta[e->meta_count].key, sizeof e->meta[0].key, "%s", key);
    va_start(ap, fmt);
    vsnprintf(e->meta[e->meta_count].value, sizeof e->meta[0].value, fmt, ap);
    va_end(ap);
    e->meta_count++;
}

void ps_error_violate(ps_error *e, const char *field, const char *fmt, ...)
{
    ps_violation *v = &e->violations[e->violation_count];
    va_list ap;

    if (e->violation_count == PS_ERROR_VIOLATIONS_MAX) {
        e->violations_dropped++;
        return;
    }
    ps_shorten(v->field, sizeof v->field, field);
    va_start(ap, fmt);
    ps_shorten_vprint(v->text, sizeof v->text, fmt, ap);
    va_end(ap);
    e->violation_count++;
}
