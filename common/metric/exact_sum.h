/* SPDX-License-Identifier: Apache-2.0 */
/* exact_sum.h - a sum of doubles without rounding, independent of their order.
 *
 * Floating-point sums depend on the order of their terms. This sum is a fixed-point number wide
 * enough for every bit of every double (Kulisch's long accumulator), so parts of a sum may be
 * merged in any order and give the same bits. It is rounded once, when it is read. It holds up
 * to 2^62 terms.
 */
#ifndef PS_COMMON_METRIC_EXACT_SUM_H
#define PS_COMMON_METRIC_EXACT_SUM_H

#include "common/base/status.h"

#include <stdint.h>

enum {
    PS_SUM_LIMBS = 72,
    PS_SUM_BYTES = 8 + 4 * PS_SUM_LIMBS /* size of a serialised sum */
};

/* {0} is an empty sum. Limb i has the weight 2^(32 i - 1152). */
typedef struct ps_exact_sum {
    /* each limb is within +-2^62; what exceeds 32 bits is carried to the next limb later */
    int64_t limb[PS_SUM_LIMBS];
    uint32_t uncarried; /* terms added since the last carry */
    uint32_t odd;       /* special terms: bit 0 a NaN, bit 1 +Inf, bit 2 -Inf */
} ps_exact_sum;

/* Adds x, which may be NaN or infinite. */
void ps_exact_sum_add(ps_exact_sum *sum, double x);
/* Adds all terms of `other`. */
void ps_exact_sum_merge(ps_exact_sum *sum, const ps_exact_sum *other);

/* Returns the sum, rounded to nearest even. If a term is NaN or infinite, the result is what
 * floating-point addition of the terms gives. */
double ps_exact_sum_value(const ps_exact_sum *sum);

/* Serialises the sum to PS_SUM_BYTES bytes: `odd`, zeros, and the carried limbs, little-endian,
 * the last one in two's complement. Equal sums give equal bytes. */
void ps_exact_sum_write(const ps_exact_sum *sum, uint8_t *bytes);
/* Reads what ps_exact_sum_write wrote. Returns DATA_LOSS if the bytes are not of that form. */
PS_MUST_USE ps_status ps_exact_sum_read(ps_exact_sum *sum, const uint8_t *bytes);

#endif
