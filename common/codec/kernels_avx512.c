/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx512.c - the kernels for x86-64 with AVX-512. */
#include "common/codec/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#include "common/codec/kernels_wrap.h"

ON static void f32_add(const uint8_t *in, float *restrict y, size_t n)
{
    body_f32_add(in, y, n);
}

ON static void f16_encode(const float *x, uint8_t *restrict out, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i h = _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);

        _mm256_storeu_si256((void *)(out + 2 * i), h);
    }
    body_f16_encode(x + i, out + 2 * i, n - i);
}

ON static void f16_set(const uint8_t *in, float *restrict y, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(in + 2 * i))));
    }
    body_f16_set(in + 2 * i, y + i, n - i);
}

ON static void f16_add(const uint8_t *in, float *restrict y, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 x = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(in + 2 * i)));

        _mm512_storeu_ps(y + i, _mm512_add_ps(_mm512_loadu_ps(y + i), x));
    }
    body_f16_add(in + 2 * i, y + i, n - i);
}

ON static uint32_t largest(const float *x, size_t n)
{
    return body_largest(x, n);
}

ON static void int8_encode(const float *x, float inverse, uint32_t key, uint8_t *restrict out,
                           size_t n)
{
    body_int8_encode(x, inverse, key, out, n);
}

ON static void int8_set(const uint8_t *in, float scale, float *restrict y, size_t n)
{
    body_int8_set(in, scale, y, n);
}

ON static void int8_add(const uint8_t *in, float scale, float *restrict y, size_t n)
{
    body_int8_add(in, scale, y, n);
}

ON static void signs_pack(const float *x, uint8_t *restrict out, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __mmask16 signs = _mm512_movepi32_mask(_mm512_castps_si512(_mm512_loadu_ps(x + i)));

        memcpy(out + i / 8, &signs, sizeof signs);
    }
    body_signs_pack(x + i, out + i / 8, n - i);
}

ON static size_t above(const float *x, uint32_t least, uint16_t *restrict positions, size_t n)
{
    const __m512i without_sign = _mm512_set1_epi32(0x7fffffff);
    const __m512i at_least = _mm512_set1_epi32((int)least);
    size_t i = 0, count = 0;

    for (; i + 32 <= n; i += 32) {
        __m512i a = _mm512_loadu_si512(x + i), b = _mm512_loadu_si512(x + i + 16);
        uint32_t low = _mm512_cmpge_epi32_mask(_mm512_and_si512(a, without_sign), at_least);
        uint32_t high = _mm512_cmpge_epi32_mask(_mm512_and_si512(b, without_sign), at_least);

        count = spell(low | high << 16, i, positions, count);
    }
    return body_above(x, least, positions, i, count, n);
}

const ps_kernels ps_kernels_avx512 = {
    .name = "avx512",
    .f32_add = f32_add,
    .f16_encode = f16_encode,
    .f16_set = f16_set,
    .f16_add = f16_add,
    .largest = largest,
    .int8_encode = int8_encode,
    .int8_set = int8_set,
    .int8_add = int8_add,
    PS_KERNELS_MORE,
};

#else

/* A translation unit must not be empty. */
typedef int ps_no_kernels_avx512;

#endif
