/* SPDX-License-Identifier: Apache-2.0 */
/* exact_sum.h - a sum of doubles without rounding, whatever their order.
 *
 * Floating-point sums depend on the order of their terms; this one is a fixed
 * point number wide enough for every bit of every double (Kulisch's long
 * accumulator), so parts of a sum can be merged in any order and give the same
 * bits. It is rounded once, when it is read. Up to 2^62 terms.
 */
#ifndef PS_COMMON_METRIC_EXACT_SUM_H
#define PS_COMMON_METRIC_EXACT_SUM_H

#include "common/base/status.h"

#include <stdint.h>

enum {
    PS_SUM_LIMBS = 72,
    PS_SUM_BYTES = 8 + 4 * PS_SUM_LIMBS /* as written */
};

/* {0} is an empty sum. Limb i counts 2^(32 i - 1152). */
typedef struct ps_exact_sum {
    int64_t limb[PS_SUM_LIMBS]; /* not yet carried: each within +-2^62 */
    uint32_t uncarried;         /* terms since they were */
    uint32_t odd;               /* which of NaN, +Inf and -Inf were among the terms: bits 0, 1, 2 */
} ps_exact_sum;

void ps_exact_sum_add(ps_exact_sum *sum, double x);
void ps_exact_sum_merge(ps_exact_sum *sum, const ps_exact_sum *other);

/* The sum, rounded to nearest even. NaN or Inf as addition would have it. */
double ps_exact_sum_value(const ps_exact_sum *sum);

/* The one form of a sum, little-endian: `odd`, zeros, and the carried limbs, the last
 * one in two's complement. bytes has room for PS_SUM_BYTES. */
void ps_exact_sum_write(const ps_exact_sum *sum, uint8_t *bytes);
/* DATA_LOSS when it is no such form. */
PS_MUST_USE ps_status ps_exact_sum_read(ps_exact_sum *sum, const uint8_t *bytes);

#endif
