/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_rank.h - products of thin matrices, for powersgd. Vectors have sixteen lanes on every
 * processor; a sum over a row is sixteen sums, added in a fixed order at the end.
 *
 * Letters: M (rows, stride), P (rank, rows), Q (rank, stride); stride is a multiple of 16.
 */
#ifndef PS_COMMON_CODEC_KERNELS_RANK_H
#define PS_COMMON_CODEC_KERNELS_RANK_H

#include "common/codec/kernels_more.h"

enum { RANK_LANES = 16, RANK_GROUP = 4 };

typedef float lanes __attribute__((vector_size(4 * RANK_LANES)));

/* Vectors are passed by pointer: passed by value, their ABI would depend on the processor. */
PS_BODY void lanes_load(lanes *v, const float *x)
{
    memcpy(v, x, sizeof *v);
}

PS_BODY float lanes_sum(const lanes *v)
{
    float part[RANK_LANES];

    memcpy(part, v, sizeof part);
    for (size_t half = RANK_LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            part[j] += part[j + half];
        }
    }
    return part[0];
}

/* Computes `group` rows of P = Q M^T. */
PS_BODY void rows_of_group(const float *m, size_t rows, size_t stride, const float *q, size_t group,
                           float *p)
{
    for (size_t i = 0; i < rows; i++) {
        lanes sum[RANK_GROUP] = {{0}};

        for (size_t j = 0; j < stride; j += RANK_LANES) {
            lanes here, other;

            lanes_load(&here, m + i * stride + j);
            for (size_t k = 0; k < group; k++) {
                lanes_load(&other, q + k * stride + j);
                sum[k] += here * other;
            }
        }
        for (size_t k = 0; k < group; k++) {
            p[k * rows + i] = lanes_sum(&sum[k]);
        }
    }
}

PS_BODY void body_rank_rows(const float *m, size_t rows, size_t stride, const float *q, size_t rank,
                            float *p)
{
    size_t k = 0;

    for (; k + RANK_GROUP <= rank; k += RANK_GROUP) {
        rows_of_group(m, rows, stride, q + k * stride, RANK_GROUP, p + k * rows);
    }
    for (; k < rank; k++) {
        rows_of_group(m, rows, stride, q + k * stride, 1, p + k * rows);
    }
}

/* Computes `group` rows of Q = P M. */
PS_BODY void columns_of_group(const float *m, size_t rows, size_t stride, const float *p,
                              size_t group, float *q)
{
    for (size_t j = 0; j < stride; j += RANK_LANES) {
        lanes sum[RANK_GROUP] = {{0}};

        for (size_t i = 0; i < rows; i++) {
            lanes here;

            lanes_load(&here, m + i * stride + j);
            for (size_t k = 0; k < group; k++) {
                sum[k] += here * p[k * rows + i];
            }
        }
        for (size_t k = 0; k < group; k++) {
            memcpy(q + k * stride + j, &sum[k], sizeof sum[k]);
        }
    }
}

PS_BODY void body_rank_columns(const float *m, size_t rows, size_t stride, const float *p,
                               size_t rank, float *q)
{
    size_t k = 0;

    for (; k + RANK_GROUP <= rank; k += RANK_GROUP) {
        columns_of_group(m, rows, stride, p + k * rows, RANK_GROUP, q + k * stride);
    }
    for (; k < rank; k++) {
        columns_of_group(m, rows, stride, p + k * rows, 1, q + k * stride);
    }
}

/* Computes one row of M = P^T Q; its column of P is at p, p + rows, ... */
PS_BODY void body_rank_product(const float *p, size_t rows, const float *q, size_t stride,
                               size_t rank, float *row)
{
    for (size_t j = 0; j < stride; j += RANK_LANES) {
        lanes sum = {0}, other;

        for (size_t k = 0; k < rank; k++) {
            lanes_load(&other, q + k * stride + j);
            sum += p[k * rows] * other;
        }
        memcpy(row + j, &sum, sizeof sum);
    }
}

#endif
