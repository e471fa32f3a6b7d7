/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - values of any number through a codec: encodings of PS_CODEC_VALUES each, the last
 * perhaps of fewer, numbered from 0. For rows of sparse tables. Any thread. */
#ifndef PS_COMMON_CODEC_PARTS_H
#define PS_COMMON_CODEC_PARTS_H

#include "common/codec/codec.h"

/* Encodings that n values make, and most bytes that they take. */
size_t ps_parts_count(size_t n);
size_t ps_parts_bytes(const ps_codec *codec, const ps_params *params, size_t n);

/* Writes them to out and their heads (ps_parts_count) behind one another; key seeds rounding.
 * Returns the bytes. */
size_t ps_parts_encode(const ps_codec *codec, const ps_params *params, uint64_t key, const float *x,
                       size_t n, uint8_t *out, ps_encoding *heads);

/* Where a message is being read. */
typedef struct ps_parts_reader {
    Psgd__V1__Encoding **heads; /* (count) */
    size_t count, at;
    /* Gives the next len bytes; scratch is as ps_payload_view's. */
    const uint8_t *(*view)(void *arg, size_t at, size_t len, void *scratch);
    void *arg;
    size_t bytes, from; /* of the payload, and those read */
} ps_parts_reader;

/* The next n values into y. INVALID_ARGUMENT or DATA_LOSS: they are not there, or not of the codec;
 * y may be written. */
PS_MUST_USE ps_status ps_parts_read(ps_parts_reader *r, const ps_codec *codec, float *y, size_t n);

/* DATA_LOSS: something is left over. */
PS_MUST_USE ps_status ps_parts_end(const ps_parts_reader *r);

#endif
