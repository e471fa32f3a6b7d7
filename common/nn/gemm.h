/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h - products of matrices that fit in a core's cache, for each level of processor.
 *
 * For blas.c and its test. A general product packs its operands so that large ones are read in
 * order. For a dense layer and a block of samples, packing takes up to a third of the time and
 * gains nothing, since the operands are in the cache anyway. These products do not pack.
 *
 * They are also used if one operand has few rows and the other one does not fit a cache: packing
 * the large one would take as long as the multiplication. `thin` is the limit of rows: 64 with
 * AVX-512, 0 (never) with AVX2; see blas.c.
 *
 * Why they are here (bench_kernels, one thread, busy machines). Zen 4 with AVX-512, best of 5
 * rounds: at the shapes where they are used (mlp, ngram, wide_deep, the dense layers of cnn and
 * alexnet227), OpenBLAS takes 1.0 to 1.8 times as long, oneDNN 0.9 to 3.2 times. At other shapes
 * OpenBLAS is up to 1.2 times as fast and is used. Zen 4 with AVX2, best of 7: OpenBLAS takes 0.9
 * to 1.9 times as long. Xeon with AVX-512, best of 25: 0.9 to 1.8 where operands fit a cache.
 *
 * Float32, row-major. c (m, n) = c * keep + a (m, k) b. If `keep` is false, c is not read, so a NaN
 * in it does no harm. With one table, equal arguments give equal bits. c must not overlap a or b.
 * Any thread.
 */
#ifndef PS_COMMON_NN_GEMM_H
#define PS_COMMON_NN_GEMM_H

#include "common/base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A term of a sum of outer products: the offsets of its factors in a and b, in values. */
typedef struct ps_gemm_term {
    uint32_t a, b;
} ps_gemm_term;

/* A sum of outer products in c (m, n), whose rows are c_row values apart:
 *
 *     c[i][j] = sum over u < steps and t < terms of
 *               a[i * a_row + u * a_step + term[t].a] * b[u * b_step + term[t].b + j] */
typedef struct ps_gemm_sum {
    size_t m, n, steps, terms;
    const ps_gemm_term *term;
    size_t a_row, a_step, b_step, c_row;
} ps_gemm_sum;

/* A grid of values whose rows begin `pitch` values apart. It is read in whole vectors, so
 * ps_gemm_reads must be true for it. */
typedef struct ps_gemm_grid {
    size_t rows, columns, pitch;
} ps_gemm_grid;

/* The same grid in each of several images, and the layout of a: for each row of a and each image, a
 * has one value for each value of the grid, without gaps. */
typedef struct ps_gemm_grids {
    ps_gemm_grid grid;
    size_t images;
    size_t a_row;            /* distance, in values, between the beginnings of two rows of a */
    size_t a_image, b_image; /* values from an image to the next, in a and in b */
} ps_gemm_grids;

/* Rows of a product may be computed in stripes that begin at multiples of this number; the bits are
 * those of the whole product. by_columns, onto_windows and onto_grids need the multiple, because
 * with AVX-512 they add up the lanes of a tile of this many rows at once; the others may begin a
 * stripe at any row. */
enum { PS_GEMM_CUT = 4 };

typedef struct ps_gemm {
    const char *name; /* "avx2", "avx512" */
    size_t lanes;     /* floats of a vector */
    /* Limits within which blas.c uses this table, because it is then faster than OpenBLAS. */
    /* most rows of a (of a^T b: most terms) if an operand does not fit into a cache; 0: never used
     * then */
    size_t thin;
    size_t dots; /* least k for by_columns */

    /* b is (k, n); element (i, p) of a is a[i * ai + p * ap]. */
    void (*over_rows)(size_t m, size_t n, size_t k, const float *a, size_t ai, size_t ap,
                      const float *b, bool keep, float *c);
    /* b is given as its transpose (n, k); a is (m, k). */
    void (*by_columns)(size_t m, size_t n, size_t k, const float *a, const float *b, bool keep,
                       float *c);

    /* Row p of b is the n values from b + at[p] on. Rows may overlap: those of a convolution are
     * one image, shifted. c (m, n) = a (m, k) b. */
    void (*by_windows)(size_t m, size_t n, size_t k, const float *a, const float *b,
                       const uint32_t *at, float *c);
    /* b is given as its transpose (n, k), whose row j is the k values from b + at[j] on; rows of a
     * are ai values apart. c (m, n) += a b. */
    void (*onto_windows)(size_t m, size_t n, size_t k, const float *a, size_t ai, const float *b,
                         const uint32_t *at, float *c);

    /* c (m, n) = c * keep + the sum. Adds step by step, and within a step term by term. */
    void (*by_terms)(const ps_gemm_sum *of, const float *a, const float *b, bool keep, float *c);

    /* Does what by_windows does, but row p of b is the grid whose first value is at b + at[p]. c
     * (m, rows * columns) = c * keep + a (m, k) b. */
    void (*by_grids)(size_t m, size_t k, const ps_gemm_grid *grid, const float *a, const float *b,
                     const uint32_t *at, bool keep, float *c);
    /* Does what onto_windows does, but row j of b's transpose is the grid at b + at[j] of each
     * image. c (m, n) += the sum over the images of a b. */
    void (*onto_grids)(size_t m, size_t n, const ps_gemm_grids *of, const float *a, const float *b,
                       const uint32_t *at, float *c);
} ps_gemm;

/* Returns the table for processors of this level, or NULL if there is none. */
const ps_gemm *ps_gemm_of(ps_cpu level);

enum { PS_GEMM_CACHE = (3 << 19) / sizeof(float) }; /* values: 3/4 of a cache of 2 MiB */

/* Returns whether a, b and c together have at most PS_GEMM_CACHE values. */
static inline bool ps_gemm_fits(size_t m, size_t n, size_t k)
{
    const size_t most = PS_GEMM_CACHE;

    return m <= most && n <= most && k <= most && m * n <= most && n * k <= most &&
           m * n + n * k + m * k <= most;
}

/* Returns whether each row of a grid fills whole vectors, or each pair of rows fills one. */
static inline bool ps_gemm_reads(const ps_gemm *g, size_t rows, size_t columns)
{
    return columns % g->lanes == 0 || (2 * columns == g->lanes && rows % 2 == 0);
}

#if defined(__x86_64__)
extern const ps_gemm ps_gemm_avx2, ps_gemm_avx512;
#endif

#endif
