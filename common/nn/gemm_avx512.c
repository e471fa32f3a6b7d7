/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_avx512.c - the products for x86-64 with AVX-512: 32 registers of 16 floats. */
#include "common/nn/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx512f")))

typedef __m512 vec;
typedef __mmask16 mask;

enum {
    LANES = 16,
    ROWS = 6,
    VECTORS = 4,
    DOT_ROWS = 4,
    DOT_COLUMNS = 4,
    TERM_ROWS = 12,
    TERM_VECTORS = 2
};

/* Returns the sums over the lanes of 4 x 4 vectors: value 4 i + j is the sum of vector (i, j).
 * Summing them together takes about two shuffles and one addition for each vector. */
ON static inline __attribute__((always_inline)) __m512 sums_of(__m512 v[DOT_ROWS][DOT_COLUMNS])
{
    __m512 row[DOT_ROWS];

    for (unsigned i = 0; i < DOT_ROWS; i++) {
        __m512 a = _mm512_add_ps(_mm512_unpacklo_ps(v[i][0], v[i][1]),
                                 _mm512_unpackhi_ps(v[i][0], v[i][1]));
        __m512 b = _mm512_add_ps(_mm512_unpacklo_ps(v[i][2], v[i][3]),
                                 _mm512_unpackhi_ps(v[i][2], v[i][3]));
        __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);

        row[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)),
                               _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
    }
    for (unsigned half = 2; half > 0; half /= 2) {
        for (unsigned i = 0; i < half; i++) {
            __m512 a = row[2 * i], b = row[2 * i + 1];

            row[i] =
                _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
        }
    }
    return row[0];
}

/* Computes c = c * keep + the sums of the vectors, for a whole tile of products by columns. Rows of
 * c are n values apart. */
ON static inline __attribute__((always_inline)) void put_sums(__m512 v[DOT_ROWS][DOT_COLUMNS],
                                                              bool keep, float *c, size_t n)
{
    __m512 sums = sums_of(v);
    __m128 row[DOT_ROWS] = {_mm512_extractf32x4_ps(sums, 0), _mm512_extractf32x4_ps(sums, 1),
                            _mm512_extractf32x4_ps(sums, 2), _mm512_extractf32x4_ps(sums, 3)};

    for (unsigned i = 0; i < DOT_ROWS; i++) {
        float *to = c + i * n;

        _mm_storeu_ps(to, keep ? _mm_add_ps(_mm_loadu_ps(to), row[i]) : row[i]);
    }
}

ON static inline __m512 load_two(const float *p, const float *q)
{
    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(_mm256_loadu_ps(p))),
                           _mm256_castps_pd(_mm256_loadu_ps(q)), 1));
}

#define ZERO() _mm512_setzero_ps()
#define SET1(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUM(v) _mm512_reduce_add_ps(v)
#define PUT_SUMS(v, keep, c, n) put_sums(v, keep, c, n)
#define LOAD_TWO(p, q) load_two(p, q)
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define MASK(count) ((mask)((1U << (count)) - 1U))
#define LOAD_MASKED(p, m) _mm512_maskz_loadu_ps(m, p)
#define STORE_MASKED(p, m, v) _mm512_mask_storeu_ps(p, m, v)

#include "common/nn/gemm_body.h"

const ps_gemm ps_gemm_avx512 = {.name = "avx512",
                                .lanes = LANES,
                                .thin = 64,
                                .dots = 128,
                                .over_rows = over_rows,
                                .by_columns = by_columns,
                                .by_windows = by_windows,
                                .onto_windows = onto_windows,
                                .by_terms = by_terms,
                                .by_grids = by_grids,
                                .onto_grids = onto_grids};

#endif
