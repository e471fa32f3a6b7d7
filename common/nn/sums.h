/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - sums over many values in sixteen lanes. The bits are the same for every width of vector
 * registers, and the rounding error is that of sixteen partial sums. For common/nn only.
 */
#ifndef PS_COMMON_NN_SUMS_H
#define PS_COMMON_NN_SUMS_H

#include <stddef.h>

float ps_sum_f32(const float *x, size_t n); /* returns the sum of x (n) */
/* returns the sum of (x - mean)^2 over x (n) */
float ps_sum_squares_f32(const float *x, float mean, size_t n);
/* returns the sum of a * b over n values */
float ps_sum_product_f32(const float *a, const float *b, size_t n);

/* Computes two sums over n values at once: *of_dy of dy, *of_product of dy * (x - mean). */
void ps_sum_pair_f32(const float *dy, const float *x, float mean, size_t n, float *of_dy,
                     float *of_product);

#endif
