/* SPDX-License-Identifier: Apache-2.0 */
/* last_error.c - see last_error.h. */
#include "clients/lib/last_error.h"

#include "clients/lib/psgd.h"
#include "common/base/printable.h"

#include <string.h>

_Static_assert((int)PSGD_INVALID_ARGUMENT == (int)PS_INVALID_ARGUMENT, "the numbers of gRPC");
_Static_assert((int)PSGD_DEADLINE_EXCEEDED == (int)PS_DEADLINE_EXCEEDED, "the numbers of gRPC");
_Static_assert((int)PSGD_RESOURCE_EXHAUSTED == (int)PS_RESOURCE_EXHAUSTED, "the numbers of gRPC");
_Static_assert((int)PSGD_FAILED_PRECONDITION == (int)PS_FAILED_PRECONDITION, "the numbers of gRPC");
_Static_assert((int)PSGD_ABORTED == (int)PS_ABORTED, "the numbers of gRPC");
_Static_assert((int)PSGD_UNAVAILABLE == (int)PS_UNAVAILABLE, "the numbers of gRPC");
_Static_assert((int)PSGD_DATA_LOSS == (int)PS_DATA_LOSS, "the numbers of gRPC");

static _Thread_local char last_error[PS_STATUS_TEXT_BYTES];

int library_tell(const ps_status *st)
{
    if (!ps_is_ok(st)) {
        memcpy(last_error, st->text, sizeof last_error);
        ps_printable(last_error); /* it may have names and values of the program */
    }
    return (int)st->code;
}

const char *psgd_last_error(void)
{
    return last_error;
}
