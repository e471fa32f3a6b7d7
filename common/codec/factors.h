/* SPDX-License-Identifier: Apache-2.0 */
/* factors.h - a matrix as the product of two thin matrices, by one step of power iteration
 * (PowerSGD, Vogels et al. 2019). The codec powersgd applies it to a slice,
 * common/wire/matrix.h to a variable.
 *
 * Letters: M (rows, columns) is stored in rows of `stride` values, a multiple of
 * PS_FACTORS_LANES, with zeros behind each row. P (rank, rows). Q (rank, columns), stored in
 * rows of `stride` like M. M is approximately P^T Q, and the rows of P are orthonormal: P =
 * Q_before M^T, orthonormalised (Gram and Schmidt, twice), then Q = P M. The bytes are the same
 * on every processor.
 */
#ifndef PS_COMMON_CODEC_FACTORS_H
#define PS_COMMON_CODEC_FACTORS_H

#include "common/codec/codec_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_FACTORS_LANES = 16,
    PS_FACTORS_RANK_MAX = 32,
    PS_FACTORS_COLUMNS_MAX = PS_CODEC_VALUES /* a multiple of PS_FACTORS_LANES */
};

/* Returns `columns`, rounded up to a multiple of PS_FACTORS_LANES. */
static inline size_t ps_factors_stride(size_t columns)
{
    return (columns + PS_FACTORS_LANES - 1) / PS_FACTORS_LANES * PS_FACTORS_LANES;
}

/* Returns whether it pays to send the two factors of a matrix of n values: they are fewer than n
 * values, and its rows have at least half of PS_FACTORS_LANES values. Narrower matrices would be
 * mostly padding. */
bool ps_factors_pay(size_t rank, size_t rows, size_t columns, size_t n);

/* Writes x[0..n) times 2^-exponent as the rows of M; the last row may be short. */
void ps_factors_load(const float *x, size_t n, size_t columns, int exponent, float *m);

/* Prepares Q for a step: draws the rows that are zeros, which are new or were left by a matrix
 * of lower rank. Other rows stay. */
void ps_factors_begin(uint32_t key, size_t rank, size_t columns, float *q);

/* Makes the rows of p (rank, rows) orthonormal. A row that depends, or nearly depends, on those
 * before it becomes zeros. */
void ps_factors_orthonormalise(float *p, size_t rank, size_t rows);

/* Writes n values of Q in the form that is sent: times 2^exponent, clipped so that no sum of
 * products is infinite. */
void ps_factors_scale(const float *q, size_t n, int exponent, float *out);

/* Reads Q (rank, stride) from bytes that were sent; `in` need not be aligned. */
void ps_factors_read(const uint8_t *in, size_t rank, size_t columns, float *q);

/* Writes the values [first, first + n) of the matrix P^T Q to y, set or added. The rows of P
 * begin at p, p + p_rows, ..., and p[0] belongs to the row of value `first`. Q is (rank,
 * stride). */
void ps_factors_multiply(const float *p, size_t p_rows, const float *q, size_t rank, size_t columns,
                         size_t first, size_t n, ps_into into, float *y);

/* ---- A whole variable ---- */

/* A variable of at most PS_FACTORS_COLUMNS_MAX columns, with room for a part of M. */
typedef struct ps_factors {
    size_t rank, rows, columns, stride;
    float *p;    /* (rank, rows) */
    float *q;    /* (rank, stride): Q of the last step, of M scaled; zeros at first */
    float *sent; /* (rank, stride): Q in the form that is sent */
    /* (panel, stride), (rank, panel): scratch; a panel is the rows of M that are processed together
     */
    float *m, *part;
} ps_factors;

/* Allocates the memory for a variable. `q` is zeros. */
void ps_factors_init(ps_factors *f, size_t rank, size_t rows, size_t columns);
/* Frees the memory. */
void ps_factors_fini(ps_factors *f);
/* Returns the bytes that ps_factors_init allocates. */
size_t ps_factors_memory(const ps_factors *f);

/* Computes P and Q of x (rows, columns), starting from the present Q, whose missing rows are
 * drawn with `key`. Non-finite values are replaced row by row as ps_finite does. If x counts as
 * zeros, P and `sent` become zeros and Q stays. */
void ps_factors_step(ps_factors *f, uint64_t key, const float *x);

#endif
