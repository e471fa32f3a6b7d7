/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - encodes any number of values: as encodings of PS_CODEC_VALUES values, the last
 * perhaps with fewer, numbered from 0. For rows of sparse tables. Any thread. */
#ifndef PS_COMMON_CODEC_PARTS_H
#define PS_COMMON_CODEC_PARTS_H

#include "common/codec/codec.h"

/* Returns the number of encodings for n values. */
size_t ps_parts_count(size_t n);
/* Returns the maximum of bytes that the encodings of n values take. */
size_t ps_parts_bytes(const ps_codec *codec, const ps_params *params, size_t n);

/* Encodes n values to `out` and the heads (ps_parts_count) one after the other; `key`
 * determines random rounding. Returns the number of bytes. */
size_t ps_parts_encode(const ps_codec *codec, const ps_params *params, uint64_t key, const float *x,
                       size_t n, uint8_t *out, ps_encoding *heads);

/* Writes the heads (ps_parts_count) of n values that are sent as they are, by a codec that is plain
 * (ps_codec_is_plain). */
void ps_parts_heads(const ps_codec *codec, const ps_params *params, size_t n, ps_encoding *heads);

/* A message that is being read, and how far. The caller sets all but `at` and `from`, which begin
 * as 0. */
typedef struct ps_parts_reader {
    Psgd__V1__Encoding **heads; /* (count) */
    size_t count, at;           /* number of heads, and the index of the next one to read */
    /* Returns the bytes [at, at + len) of the payload, as ps_payload_view does; `scratch` is for
     * bytes that are not contiguous. */
    const uint8_t *(*view)(void *arg, size_t at, size_t len, void *scratch);
    void *arg;
    size_t bytes, from; /* bytes of the payload, and how many of them were read */
} ps_parts_reader;

/* Reads the next n values to y. Returns INVALID_ARGUMENT or DATA_LOSS if they are missing or
 * not of the codec; y may then be partly written. */
PS_MUST_USE ps_status ps_parts_read(ps_parts_reader *r, const ps_codec *codec, float *y, size_t n);

/* Returns DATA_LOSS if encodings or bytes of the message were not read. */
PS_MUST_USE ps_status ps_parts_end(const ps_parts_reader *r);

#endif
