/* SPDX-License-Identifier: Apache-2.0 */
/* trits.h - values of three levels, five per byte: for ternary, tqn and threelc. Private to
 * common/codec.
 *
 * With m = ceil(n / 5), byte i holds the values i, i + m, i + 2 m, i + 3 m, i + 4 m as digits
 * of base 3, the first the lowest. A digit is q + 1, and 1 behind the last value. So a byte is
 * at most 242, and 121 means five zeros.
 */
#ifndef PS_COMMON_CODEC_TRITS_H
#define PS_COMMON_CODEC_TRITS_H

#include "common/codec/codec_type.h"

#include <stdbool.h>

enum {
    PS_TRITS_BYTES = (PS_CODEC_VALUES + 4) / 5, /* limit of the bytes of one slice */
    PS_TRITS_TOP = 242,                         /* the highest valid byte */
    PS_TRITS_ZEROS = 121
};

/* Returns the bytes of n values. */
static inline size_t ps_trits_bytes(size_t n)
{
    return (n + 4) / 5;
}

/* Writes q, which is x * inverse rounded to -1, 0 or 1: at random so that the mean is x *
 * inverse (if it is between -1 and 1), or to nearest. */
void ps_trits_write(const float *x, size_t n, float inverse, bool draws, uint32_t key,
                    uint8_t *out);

/* Returns DATA_LOSS unless len matches n values, the scale is finite and >= 0, and all bytes
 * are valid. `name` is the codec's. */
PS_MUST_USE ps_status ps_trits_check(const char *name, uint32_t slice, float scale,
                                     const uint8_t *in, size_t len, size_t n);

/* Returns whether all bytes are at most PS_TRITS_TOP. */
bool ps_trits_are_sound(const uint8_t *in, size_t len);

/* Reads y = q * scale from valid bytes. */
void ps_trits_read(const uint8_t *in, size_t n, float scale, ps_into into, float *y);

#endif
