/* SPDX-License-Identifier: Apache-2.0 */
/* largest.h - the k largest of values, by the bits of their magnitudes (so infinities and
 * NaN are the largest): what topk and dgc share. Private to common/codec. */
#ifndef PS_COMMON_CODEC_LARGEST_H
#define PS_COMMON_CODEC_LARGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t ps_magnitude_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* The k-th largest of m magnitudes, 1 <= k <= m; *ties is how many equal to it are
 * among the k largest. `of` is used up. m is at most PS_CODEC_VALUES. */
uint32_t ps_kth_largest(uint32_t *of, size_t m, size_t k, size_t *ties);

/* Of the values at m ascending positions the k largest stay, 1 <= k <= m, of equals the
 * first. Returns k. */
size_t ps_keep_largest(const float *x, uint16_t *positions, size_t m, size_t k);

#endif
