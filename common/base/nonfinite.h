/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.h - finds values that are no finite numbers, as fast as memory gives them.
 *
 * Bytes may be unaligned, as they come from the network. Any thread.
 */
#ifndef PS_COMMON_BASE_NONFINITE_H
#define PS_COMMON_BASE_NONFINITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_EXPONENT_BF16 = 0x7f80, /* exponent bits of 16-bit values: all set in NaN and infinities */
    PS_EXPONENT_F16 = 0x7c00
};

/* Returns the index of the first of n float32 values that is NaN or infinite; n: all are finite. */
size_t ps_first_nonfinite(const void *floats, size_t n);

/* Copies n float32 values and returns whether all of them are finite. It takes hardly longer than a
 * copy alone. The two must not overlap. */
bool ps_copy_finite(void *restrict to, const void *restrict floats, size_t n);

/* Returns the index of the first of n 16-bit values that is NaN or infinite, whose bits of
 * `exponent` are all set; n: all are finite. `exponent` is a PS_EXPONENT_... */
size_t ps_first_nonfinite16(const void *values, size_t n, uint16_t exponent);

#endif
