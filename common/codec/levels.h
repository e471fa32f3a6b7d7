/* SPDX-License-Identifier: Apache-2.0 */
/* levels.h - integers times a step, packed: for intn, intsum, laq, norm and qsgd. Private to
 * common/codec. */
#ifndef PS_COMMON_CODEC_LEVELS_H
#define PS_COMMON_CODEC_LEVELS_H

#include "common/codec/codec_type.h"

#include <stdbool.h>

/* Writes the codes q + limit with `bits` bits each, 2 * limit < 2^bits <= 2^16, to
 * ps_pack_bytes(n, bits) bytes. q is that of levels8 (if it draws) or nearest8 in kernels.h.
 * `first` is the number of the first draw. */
void ps_levels_write(const float *x, size_t n, float inverse, uint32_t limit, unsigned bits,
                     bool draws, uint32_t key, size_t first, uint8_t *out);

/* Returns DATA_LOSS unless bits is 2 to 16, the scale is finite and >= 0, and len matches n
 * values. `name` is the codec's. */
PS_MUST_USE ps_status ps_levels_check(const char *name, uint32_t slice, uint32_t bits, float scale,
                                      size_t len, size_t n);

/* Returns a bound of |q * scale| for any codes. */
static inline float ps_levels_most(uint32_t bits, float scale)
{
    return scale * (float)(1u << bits);
}

/* Reads y = q * scale. A code above 2 * limit gives a q above the limit. */
void ps_levels_read(const uint8_t *in, size_t n, uint32_t limit, unsigned bits, float scale,
                    ps_into into, float *y);

#endif
