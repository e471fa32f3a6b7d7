/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.h - finds values that are no finite numbers, as fast as memory gives them.
 *
 * Bytes may be unaligned, as they come from the network. Any thread.
 */
#ifndef PS_COMMON_BASE_NONFINITE_H
#define PS_COMMON_BASE_NONFINITE_H

#include <stddef.h>
#include <stdint.h>

enum {
    PS_EXPONENT_BF16 = 0x7f80, /* exponent bits of 16-bit values: all set in NaN and infinities */
    PS_EXPONENT_F16 = 0x7c00
};

/* Returns the index of the first of n float32 values that is NaN or infinite; n: all are finite. */
size_t ps_first_nonfinite(const void *floats, size_t n);

/* Does the same, and meanwhile fetches the n float32 values at `next` into the processor's cache:
 * what the caller reads them with comes next. Both streams of memory then run at the same time. */
size_t ps_first_nonfinite_before(const void *floats, size_t n, const float *next);

/* Does the same as ps_first_nonfinite for 16-bit values with these exponent bits. */
size_t ps_first_nonfinite16(const void *values, size_t n, uint16_t exponent);

#endif
