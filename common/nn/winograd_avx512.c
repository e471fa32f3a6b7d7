/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_avx512.c - transforms for x86-64 with AVX-512: 16 tiles at once. */
#include "common/nn/winograd_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx512f")))

typedef __m512 vec;

enum { LANES = 16 };

ON static inline __m512 load_two(const float *p, const float *q)
{
    __m512d low = _mm512_castpd256_pd512(_mm256_castps_pd(_mm256_loadu_ps(p)));

    return _mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd(_mm256_loadu_ps(q)), 1));
}

ON static inline __m512 upper(__m512 v)
{
    return _mm512_castpd_ps(_mm512_castpd256_pd512(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
}

/* Returns every second of the 32 values of a and b, from value `first` (0 or 1) on. */
ON static inline __m512 every_other(__m512 a, __m512 b, int first)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);

    return _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(first)), b);
}

/* Returns values of a and b in turn, from value `first` (0 or 8) of each on. */
ON static inline __m512 zip(__m512 a, __m512 b, int first)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);

    return _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(first)), b);
}

#define SET1(x) _mm512_set1_ps(x)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define STORE_SOME(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)((1U << (n)) - 1U), v)
#define LOAD_TWO(p, q) load_two(p, q)
#define UPPER(v) upper(v)
#define EVENS(a, b) every_other(a, b, 0)
#define ODDS(a, b) every_other(a, b, 1)
#define ZIP_LOW(a, b) zip(a, b, 0)
#define ZIP_HIGH(a, b) zip(a, b, 8)

#include "common/nn/winograd_body.h"

const ps_winograd_tiles ps_winograd_tiles_avx512 = {
    .from_input = from_input, .from_slope = from_slope, .to_output = to_output};

#endif
