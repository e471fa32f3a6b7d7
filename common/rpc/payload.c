/* SPDX-License-Identifier: Apache-2.0 */
/* payload.c - see payload.h. */
#include "common/rpc/payload.h"

#include "common/base/nonfinite.h"

#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>

size_t ps_payload_len(const ps_payload *payload)
{
    return payload == NULL ? 0 : payload->len;
}

static const uint8_t *slice_bytes(const ps_payload *p, size_t i)
{
    return GRPC_SLICE_START_PTR(p->slices[i]);
}

static size_t slice_len(const ps_payload *p, size_t i)
{
    return GRPC_SLICE_LENGTH(p->slices[i]);
}

/* Copies the next n bytes of a run of float32 values to `to + done`; the `done` bytes before are
 * there already. A value may be split between two calls. Returns whether all values that this call
 * completes are finite. */
static bool copy_floats(uint8_t *to, size_t done, const uint8_t *from, size_t n)
{
    size_t begun = (sizeof(float) - done % sizeof(float)) % sizeof(float);
    size_t first = n < begun ? n : begun, whole = (n - first) / sizeof(float);
    size_t last = n - first - whole * sizeof(float);
    bool are_finite;

    memcpy(to + done, from, first);
    are_finite = ps_copy_finite(to + done + first, from + first, whole);
    memcpy(to + done + n - last, from + n - last, last);
    if (first > 0 && first == begun) {
        are_finite &= ps_first_nonfinite(to + done + first - sizeof(float), 1) == 1;
    }
    return are_finite;
}

/* Does what ps_payload_view_floats does; if are_finite is NULL, does what ps_payload_view does. */
static const uint8_t *view(ps_payload *p, size_t at, size_t len, void *scratch, bool *are_finite)
{
    size_t begin = p->begin + at, offset, done = 0;
    uint8_t *to = scratch;

    if (at > p->len || len > p->len - at) {
        abort(); /* the caller has not checked the length; the view would read other memory */
    }
    if (len == 0) {
        return scratch;
    }
    if (begin < p->at_begin) {
        p->at = p->at_begin = 0;
    }
    while (begin - p->at_begin >= slice_len(p, p->at)) {
        p->at_begin += slice_len(p, p->at);
        p->at++;
    }
    offset = begin - p->at_begin;
    if (slice_len(p, p->at) - offset >= len) {
        return slice_bytes(p, p->at) + offset;
    }
    if (are_finite != NULL) {
        *are_finite = true;
    }
    for (;;) {
        size_t have = slice_len(p, p->at) - offset, n = have < len - done ? have : len - done;

        if (are_finite != NULL) {
            *are_finite &= copy_floats(to, done, slice_bytes(p, p->at) + offset, n);
        } else {
            memcpy(to + done, slice_bytes(p, p->at) + offset, n);
        }
        done += n;
        if (done == len) {
            return scratch;
        }
        p->at_begin += slice_len(p, p->at);
        p->at++;
        offset = 0;
    }
}

const uint8_t *ps_payload_view(ps_payload *payload, size_t at, size_t len, void *scratch)
{
    return view(payload, at, len, scratch, NULL);
}

const uint8_t *ps_payload_view_floats(ps_payload *payload, size_t at, size_t len, void *scratch,
                                      bool *are_finite)
{
    *are_finite = false;
    return view(payload, at, len, scratch, are_finite);
}
