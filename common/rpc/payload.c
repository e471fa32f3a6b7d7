/* SPDX-License-Identifier: Apache-2.0 */
/* payload.c - see payload.h. */
#include "common/rpc/payload_impl.h"

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

const uint8_t *ps_payload_view(ps_payload *p, size_t at, size_t len, void *scratch)
{
    size_t begin = p->begin + at, offset, have;
    uint8_t *to = scratch;

    if (at > p->len || len > p->len - at) {
        abort(); /* a bug of the caller; the view would read foreign memory */
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
    have = slice_len(p, p->at) - offset;
    if (have >= len) {
        return slice_bytes(p, p->at) + offset;
    }
    for (;;) {
        size_t n = have < len ? have : len;

        memcpy(to, slice_bytes(p, p->at) + offset, n);
        to += n;
        len -= n;
        if (len == 0) {
            return scratch;
        }
        p->at_begin += slice_len(p, p->at);
        p->at++;
        offset = 0;
        have = slice_len(p, p->at);
    }
}
