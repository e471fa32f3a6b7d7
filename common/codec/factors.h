/* SPDX-License-Identifier: Apache-2.0 */
/* factors.h - a matrix as the product of two thin ones by a step of power iteration (PowerSGD,
 * Vogels et al. 2019): what the codec powersgd does with a slice and common/wire/matrix.h
 * with a variable.
 *
 * Letters: M (rows, columns), lying in rows of `stride`, a multiple of PS_FACTORS_LANES, with
 * zeros behind each; P (rank, rows), Q (rank, stride) likewise. M is about P^T Q, the rows of
 * P orthonormal: P = Q_before M^T made so (Gram and Schmidt, twice), Q = P M. The same bytes on
 * every processor.
 */
#ifndef PS_COMMON_CODEC_FACTORS_H
#define PS_COMMON_CODEC_FACTORS_H

#include "common/codec/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_FACTORS_LANES = 16,
    PS_FACTORS_RANK_MAX = 32,
    PS_FACTORS_COLUMNS_MAX = PS_CODEC_VALUES /* a multiple of the lanes */
};

static inline size_t ps_factors_stride(size_t columns)
{
    return (columns + PS_FACTORS_LANES - 1) / PS_FACTORS_LANES * PS_FACTORS_LANES;
}

/* Are two factors shorter than the matrix, and its rows long enough to be worth it? Narrow ones
 * would be mostly padding. */
bool ps_factors_pay(size_t rank, size_t rows, size_t columns, size_t n);

/* x[0..n) times 2^-exponent as M; the last row may be short. */
void ps_factors_load(const float *x, size_t n, size_t columns, int exponent, float *m);

/* What a step begins with: rows of Q that are zeros are drawn, those that were never there and
 * those that a matrix of lower rank has left. The others stay. */
void ps_factors_begin(uint32_t key, size_t rank, size_t columns, float *q);

/* The rows of p (rank, rows) become orthonormal; one that the others span, zeros. */
void ps_factors_orthonormalise(float *p, size_t rank, size_t rows);

/* n values of Q as they are sent: times 2^exponent, cut so that no sum of products is
 * infinite. */
void ps_factors_scale(const float *q, size_t n, int exponent, float *out);

/* Q (rank, stride) out of what was written. */
void ps_factors_read(const uint8_t *in, size_t rank, size_t columns, float *q);

/* Values [first, first + n) of the matrix into y, set or added: rows of P at p, p + p_rows, ...,
 * of which the first one is the row of value `first`; Q (rank, stride). */
void ps_factors_multiply(const float *p, size_t p_rows, const float *q, size_t rank, size_t columns,
                         size_t first, size_t n, ps_into into, float *y);

/* ---- A whole variable ---- */

/* One, of at most PS_FACTORS_COLUMNS_MAX columns, and room for a part of M. */
typedef struct ps_factors {
    size_t rank, rows, columns, stride;
    float *p;        /* (rank, rows) */
    float *q;        /* (rank, stride): of the last step, of M scaled; zeros at first */
    float *sent;     /* (rank, stride): as it is sent */
    float *m, *part; /* (panel, stride), (rank, panel) */
} ps_factors;

/* Takes memory, fini gives it back; so many bytes. */
void ps_factors_init(ps_factors *f, size_t rank, size_t rows, size_t columns);
void ps_factors_fini(ps_factors *f);
size_t ps_factors_memory(const ps_factors *f);

/* A step on x (rows, columns) from Q as it is, begun by `key`. What is
 * not a finite number counts as ps_finite has it in its row. Of a matrix that counts as zeros what
 * is sent are zeros, and Q stays. */
void ps_factors_step(ps_factors *f, uint64_t key, const float *x);

#endif
