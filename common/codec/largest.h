/* SPDX-License-Identifier: Apache-2.0 */
/* largest.h - selects the k largest of values by the bits of their magnitudes, so infinities
 * and NaN are the largest. For topk, dgc and code of jobs. */
#ifndef PS_COMMON_CODEC_LARGEST_H
#define PS_COMMON_CODEC_LARGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the bits of |x|. */
static inline uint32_t ps_magnitude_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Returns the k-th largest of m magnitudes, 1 <= k <= m <= PS_CODEC_VALUES. Sets *ties to how
 * many values equal to it are among the k largest. Overwrites `of`. */
uint32_t ps_kth_largest(uint32_t *of, size_t m, size_t k, size_t *ties);

/* Keeps, of the values at m ascending positions, the positions of the k largest, 1 <= k <= m;
 * of equal values the first. Returns k. */
size_t ps_keep_largest(const float *x, uint16_t *positions, size_t m, size_t k);

/* Writes the positions of the k largest of n values, ascending, 1 <= k <= n <= PS_CODEC_VALUES; of
 * equal values the first. */
void ps_choose_largest(const float *x, size_t n, size_t k, uint16_t *positions);

#endif
