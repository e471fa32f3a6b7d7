/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_avx2.c - the products for x86-64 with AVX2: 16 registers of 8 floats. */
#include "common/nn/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx2,fma")))

typedef __m256 vec;
typedef __m256i mask;

enum {
    LANES = 8,
    ROWS = 6,
    VECTORS = 2,
    DOT_ROWS = 3,
    DOT_COLUMNS = 4,
    TERM_ROWS = 6,
    TERM_VECTORS = 2
};

ON static inline float sum_of(__m256 v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

ON static inline __m256i mask_of(size_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ON static inline __m256 load_two(const float *p, const float *q)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1);
}

#define ZERO() _mm256_setzero_ps()
#define SET1(x) _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUM(v) sum_of(v)
#define LOAD_TWO(p, q) load_two(p, q)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define MASK(count) mask_of(count)
#define LOAD_MASKED(p, m) _mm256_maskload_ps(p, m)
#define STORE_MASKED(p, m, v) _mm256_maskstore_ps(p, m, v)

#include "common/nn/gemm_body.h"

const ps_gemm ps_gemm_avx2 = {.name = "avx2",
                              .lanes = LANES,
                              .thin = 0,
                              .dots = 256,
                              .over_rows = over_rows,
                              .by_columns = by_columns,
                              .by_windows = by_windows,
                              .onto_windows = onto_windows,
                              .by_terms = by_terms,
                              .by_grids = by_grids,
                              .onto_grids = onto_grids};

#endif
