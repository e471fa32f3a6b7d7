/* SPDX-License-Identifier: Apache-2.0 */
/* finite.h - what codecs with a scale do before they compute the scale. For codecs, built-in and of
 * jobs. */
#ifndef PS_COMMON_CODEC_FINITE_H
#define PS_COMMON_CODEC_FINITE_H

#include <stddef.h>
#include <stdint.h>

/* Returns x[0..n) itself if all values are finite. Otherwise returns a copy in room (n values), in
 * which NaN is 0, and an infinity is the largest finite magnitude of the slice with the infinity's
 * sign. Sets *most to that magnitude, or to 0 if it is below 2^-100: then the slice counts as
 * zeros, and no quotient by *most overflows. */
const float *ps_finite(const float *x, size_t n, float *room, float *most);

/* Returns the distance between the starts of the runs of 64 values that a fit uses: 64, so all
 * values, in a slice below 4096 values; else 256, so a quarter of them. */
static inline size_t ps_fit_stride(size_t n)
{
    return n < 4096 ? 64 : 256;
}

/* Returns a codec's key for 32-bit draws. */
static inline uint32_t ps_key32(uint64_t key)
{
    return (uint32_t)(key ^ (key >> 32));
}

#endif
