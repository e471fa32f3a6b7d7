/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - sums over many values in sixteen lanes: as exact as pairs and vectors allow,
 * and the same bits at every width of vector. For common/nn alone.
 */
#ifndef PS_COMMON_NN_SUMS_H
#define PS_COMMON_NN_SUMS_H

#include <stddef.h>

float ps_sum_f32(const float *x, size_t n);
float ps_sum_squares_f32(const float *x, float mean, size_t n); /* of (x - mean)^2 */
float ps_sum_product_f32(const float *a, const float *b, size_t n);
/* Of dy and of dy * (x - mean). */
void ps_sum_pair_f32(const float *dy, const float *x, float mean, size_t n, float *of_dy,
                     float *of_product);

#endif
