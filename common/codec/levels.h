/* SPDX-License-Identifier: Apache-2.0 */
/* levels.h - whole numbers times a step, packed: what intn, laq, norm and qsgd
 * share.
 * Private to common/codec. */
#ifndef PS_COMMON_CODEC_LEVELS_H
#define PS_COMMON_CODEC_LEVELS_H

#include "common/codec/codec.h"

#include <stdbool.h>

/* Writes q + limit with `bits` bits each, 2 * limit < 2^bits <= 2^16, to
 * ps_pack_bytes(n, bits) bytes; q as kernels.h says of levels8 (draws) and
 * nearest8 (does not). `first` is the number of the first draw. */
void ps_levels_write(const float *x, size_t n, float inverse, uint32_t limit, unsigned bits,
                     bool draws, uint32_t key, size_t first, uint8_t *out);

/* DATA_LOSS unless bits is 2 to 16, the scale finite and >= 0, and len what n values
 * take; `name` is the codec's. */
PS_MUST_USE ps_status ps_levels_check(const char *name, uint32_t slice, uint32_t bits, float scale,
                                      size_t len, size_t n);

/* y = q * scale. A code above 2 * limit stands for a q above the limit. */
void ps_levels_read(const uint8_t *in, size_t n, uint32_t limit, unsigned bits, float scale,
                    ps_into into, float *y);

#endif
