/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_avx2.c - transforms for x86-64 with AVX2: 8 tiles at once. */
#include "common/nn/winograd_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx2")))

typedef __m256 vec;

enum { LANES = 8 };

ON static inline __m256 load_two(const float *p, const float *q)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1);
}

/* Exchanges the second and the third of four pairs of values. */
ON static inline __m256 in_order(__m256 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

ON static inline void store_some(float *p, __m256 v, size_t n)
{
    __m256i mask =
        _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));

    _mm256_maskstore_ps(p, mask, v);
}

#define SET1(x) _mm256_set1_ps(x)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define STORE_SOME(p, v, n) store_some(p, v, n)
#define LOAD_TWO(p, q) load_two(p, q)
#define UPPER(v) _mm256_castps128_ps256(_mm256_extractf128_ps(v, 1))
#define EVENS(a, b) in_order(_mm256_shuffle_ps(a, b, 0x88))
#define ODDS(a, b) in_order(_mm256_shuffle_ps(a, b, 0xdd))
#define ZIP_LOW(a, b)                                                                              \
    _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20)
#define ZIP_HIGH(a, b)                                                                             \
    _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31)

#include "common/nn/winograd_body.h"

const ps_winograd_tiles ps_winograd_tiles_avx2 = {
    .from_input = from_input, .from_slope = from_slope, .to_output = to_output};

#endif
