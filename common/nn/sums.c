/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - see sums.h. Value i goes to lane i % 16; lanes are added by halves. */
#include "common/nn/sums.h"

#include "common/base/clones.h"

#include <stdint.h>

enum { LANES = 16 };

static float fold(float lane[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

PS_CLONES static void sum_lanes(const float *restrict x, size_t n, float *restrict lane)
{
    float sum[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            sum[l] += x[i + l];
        }
    }
    for (size_t l = 0; i < n; i++, l++) {
        sum[l] += x[i];
    }
    for (size_t l = 0; l < LANES; l++) {
        lane[l] = sum[l];
    }
}

float ps_sum_f32(const float *x, size_t n)
{
    float lane[LANES];

    sum_lanes(x, n, lane);
    return fold(lane);
}

PS_CLONES static void square_lanes(const float *restrict x, float mean, size_t n,
                                   float *restrict lane)
{
    float sum[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            sum[l] += (x[i + l] - mean) * (x[i + l] - mean);
        }
    }
    for (size_t l = 0; i < n; i++, l++) {
        sum[l] += (x[i] - mean) * (x[i] - mean);
    }
    for (size_t l = 0; l < LANES; l++) {
        lane[l] = sum[l];
    }
}

float ps_sum_squares_f32(const float *x, float mean, size_t n)
{
    float lane[LANES];

    square_lanes(x, mean, n, lane);
    return fold(lane);
}

PS_CLONES static void pair_lanes(const float *restrict dy, const float *restrict x, float mean,
                                 size_t n, float *restrict a, float *restrict b)
{
    float sum[LANES] = {0}, product[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            sum[l] += dy[i + l];
            product[l] += dy[i + l] * (x[i + l] - mean);
        }
    }
    for (size_t l = 0; i < n; i++, l++) {
        sum[l] += dy[i];
        product[l] += dy[i] * (x[i] - mean);
    }
    for (size_t l = 0; l < LANES; l++) {
        a[l] = sum[l];
        b[l] = product[l];
    }
}

void ps_sum_pair_f32(const float *dy, const float *x, float mean, size_t n, float *of_dy,
                     float *of_product)
{
    float a[LANES], b[LANES];

    pair_lanes(dy, x, mean, n, a, b);
    *of_dy = fold(a);
    *of_product = fold(b);
}

PS_CLONES static void product_lanes(const float *restrict a, const float *restrict b, size_t n,
                                    float *restrict lane)
{
    float sum[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            sum[l] += a[i + l] * b[i + l];
        }
    }
    for (size_t l = 0; i < n; i++, l++) {
        sum[l] += a[i] * b[i];
    }
    for (size_t l = 0; l < LANES; l++) {
        lane[l] = sum[l];
    }
}

float ps_sum_product_f32(const float *a, const float *b, size_t n)
{
    float lane[LANES];

    product_lanes(a, b, n, lane);
    return fold(lane);
}
