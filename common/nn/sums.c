/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - see sums.h. Value i goes to lane i % 16; lanes are added by halves. */
#include "common/nn/sums.h"

#include "common/base/clones.h"

#include <string.h>

enum { LANES = 16 };

/* Told to the compiler as one vector, or as many as the processor needs for it: loops over
 * arrays of lanes it turned inside out. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Sums from their lanes. */
static float fold(float lane[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

PS_CLONES(sum_lanes, (x, n, lane), const float *restrict x, size_t n, float *restrict lane)
{
    lanes sum = {0}, v;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        sum += v;
    }
    memcpy(lane, &sum, sizeof sum);
    for (size_t l = 0; i < n; i++, l++) {
        lane[l] += x[i];
    }
}

float ps_sum_f32(const float *x, size_t n)
{
    float lane[LANES];

    sum_lanes(x, n, lane);
    return fold(lane);
}

PS_CLONES(square_lanes, (x, mean, n, lane), const float *restrict x, float mean, size_t n,
          float *restrict lane)
{
    lanes sum = {0}, v;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        v -= mean;
        sum += v * v;
    }
    memcpy(lane, &sum, sizeof sum);
    for (size_t l = 0; i < n; i++, l++) {
        lane[l] += (x[i] - mean) * (x[i] - mean);
    }
}

float ps_sum_squares_f32(const float *x, float mean, size_t n)
{
    float lane[LANES];

    square_lanes(x, mean, n, lane);
    return fold(lane);
}

PS_CLONES(pair_lanes, (dy, x, mean, n, a, b), const float *restrict dy, const float *restrict x,
          float mean, size_t n, float *restrict a, float *restrict b)
{
    lanes sum = {0}, product = {0}, slope, v;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        memcpy(&slope, dy + i, sizeof slope);
        memcpy(&v, x + i, sizeof v);
        sum += slope;
        product += slope * (v - mean);
    }
    memcpy(a, &sum, sizeof sum);
    memcpy(b, &product, sizeof product);
    for (size_t l = 0; i < n; i++, l++) {
        a[l] += dy[i];
        b[l] += dy[i] * (x[i] - mean);
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

PS_CLONES(product_lanes, (a, b, n, lane), const float *restrict a, const float *restrict b,
          size_t n, float *restrict lane)
{
    lanes sum = {0}, v, w;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, a + i, sizeof v);
        memcpy(&w, b + i, sizeof w);
        sum += v * w;
    }
    memcpy(lane, &sum, sizeof sum);
    for (size_t l = 0; i < n; i++, l++) {
        lane[l] += a[i] * b[i];
    }
}

float ps_sum_product_f32(const float *a, const float *b, size_t n)
{
    float lane[LANES];

    product_lanes(a, b, n, lane);
    return fold(lane);
}
