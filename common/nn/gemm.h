/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h - products of matrices that fit in a core's cache, for each level of processor.
 *
 * For blas.c and its test. A general product packs its operands so that large ones are read in
 * order. For a dense layer and a block of samples, packing takes up to a third of the time and
 * gains nothing, since the operands are in the cache anyway. These products do not pack.
 *
 * They are also used if one operand has few rows and the other one does not fit a cache: packing
 * the large one would take as long as the multiplication. `thin` is the limit of rows: 64 with
 * AVX-512, 0 with AVX2 (see blas.c).
 *
 * Why they are here (bench_kernels, one thread, busy machines). Zen 4 with AVX-512, best of 5
 * rounds: where they are used, at the shapes of mlp, ngram, wide_deep and the dense layers of cnn
 * and alexnet227, OpenBLAS takes 1.0 to 1.8 times as long, oneDNN 0.9 to 3.2. At others up to 1.2
 * times as fast. The same by AVX2, best of 7: OpenBLAS 0.9 to 1.9. Xeon with AVX-512, best of 25:
 * OpenBLAS 0.9 to 1.8 where operands fit a cache.
 *
 * Float32, row-major. c (m, n) = c * keep + a (m, k) b. If `keep` is false, c is not
 * read, so that a NaN in it does no harm. The same arguments give the same bits with one table. c
 * must not overlap a and b. Any thread.
 */
#ifndef PS_COMMON_NN_GEMM_H
#define PS_COMMON_NN_GEMM_H

#include "common/base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A term of a sum of products: where its factors begin, in values. */
typedef struct ps_gemm_term {
    uint32_t a, b;
} ps_gemm_term;

/* Many products that are added up in one c (m, n), whose rows are c_row apart: a term at each
 * step. Of step u and term t the factors are a[i * a_row + u * a_step + t.a], for row i, and the n
 * values from b + u * b_step + t.b on. */
typedef struct ps_gemm_sum {
    size_t m, n, steps, terms;
    const ps_gemm_term *term;
    size_t a_row, a_step, b_step, c_row;
} ps_gemm_sum;

/* A grid of values in rows that are `pitch` apart, read as whole vectors: see ps_gemm_reads. */
typedef struct ps_gemm_grid {
    size_t rows, columns, pitch;
} ps_gemm_grid;

/* Grids of several images, and the values that they are multiplied with, which have no gaps
 * between rows: from row to row of a, and in both from image to image. */
typedef struct ps_gemm_grids {
    ps_gemm_grid grid;
    size_t images, a_row, a_image, b_image;
} ps_gemm_grids;

typedef struct ps_gemm {
    const char *name; /* "avx2", "avx512" */
    size_t lanes;     /* floats of a vector */
    /* Where these products are the faster way (blas.c): of how many rows or terms even if the
     * operands do not fit a cache, 0: never; by columns from how many terms on. */
    size_t thin, dots;

    /* b (k, n); a's element (i, p) lies at a[i * ai + p * ap]. */
    void (*by_rows)(size_t m, size_t n, size_t k, const float *a, size_t ai, size_t ap,
                    const float *b, bool keep, float *c);
    /* b is given as its transpose (n, k), and a (m, k) in rows of k. */
    void (*by_columns)(size_t m, size_t n, size_t k, const float *a, const float *b, bool keep,
                       float *c);

    /* Rows of b may overlap, as those of a convolution do, whose rows are one image moved:
     * row p has n values from b + at[p] on. c (m, n) = a (m, k) b. */
    void (*by_windows)(size_t m, size_t n, size_t k, const float *a, const float *b,
                       const uint32_t *at, float *c);
    /* b is given as its transpose, whose row j has k values from b + at[j] on; rows of a are
     * ai apart. c (m, n) += a b. */
    void (*onto_windows)(size_t m, size_t n, size_t k, const float *a, size_t ai, const float *b,
                         const uint32_t *at, float *c);

    /* c (m, n) = c * keep + the sum, step by step and in each term by term. */
    void (*by_terms)(const ps_gemm_sum *of, const float *a, const float *b, bool keep, float *c);

    /* As by_windows and onto_windows, of grids: row p of b is the grid whose first value is
     * b + at[p]. c (m, rows columns) = c * keep + a (m, k) b; */
    void (*by_grids)(size_t m, size_t k, const ps_gemm_grid *grid, const float *a, const float *b,
                     const uint32_t *at, bool keep, float *c);
    /* c (m, n) += the sum over the images of a b^T. */
    void (*onto_grids)(size_t m, size_t n, const ps_gemm_grids *of, const float *a, const float *b,
                       const uint32_t *at, float *c);
} ps_gemm;

/* Returns the table that a processor of this level runs, or NULL: there is none. */
const ps_gemm *ps_gemm_of(ps_cpu level);

enum { PS_GEMM_CACHE = (3 << 19) / sizeof(float) }; /* values: most of a cache of 2 MiB */

/* Whether the operands of such a product are few enough to stay there. */
static inline bool ps_gemm_fits(size_t m, size_t n, size_t k)
{
    const size_t most = PS_GEMM_CACHE;

    return m <= most && n <= most && k <= most && m * n <= most && n * k <= most &&
           m * n + n * k + m * k <= most;
}

/* Whether rows of a grid are whole vectors, or pairs of rows are. */
static inline bool ps_gemm_reads(const ps_gemm *g, size_t rows, size_t columns)
{
    return columns % g->lanes == 0 || (2 * columns == g->lanes && rows % 2 == 0);
}

#if defined(__x86_64__)
extern const ps_gemm ps_gemm_avx2, ps_gemm_avx512;
#endif

#endif
