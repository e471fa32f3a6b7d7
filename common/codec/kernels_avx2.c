/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx2.c - the kernels for x86-64 with AVX2 and F16C. */
#include "common/codec/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx2,popcnt,f16c")))
#include "common/codec/kernels_wrap.h"

ON static void f32_add(const uint8_t *in, float *restrict y, size_t n)
{
    body_f32_add(in, y, n);
}

ON static void f16_encode(const float *x, uint8_t *restrict out, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((void *)(out + 2 * i), h);
    }
    body_f16_encode(x + i, out + 2 * i, n - i);
}

ON static void f16_set(const uint8_t *in, float *restrict y, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + 2 * i))));
    }
    body_f16_set(in + 2 * i, y + i, n - i);
}

ON static void f16_add(const uint8_t *in, float *restrict y, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + 2 * i)));

        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), x));
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

    for (; i + 8 <= n; i += 8) {
        out[i / 8] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(x + i));
    }
    body_signs_pack(x + i, out + i / 8, n - i);
}

ON static size_t above(const float *x, uint32_t least, uint16_t *restrict positions, size_t n)
{
    const __m256i without_sign = _mm256_set1_epi32(0x7fffffff);
    const __m256i below = _mm256_set1_epi32((int)(least - 1));
    size_t i = 0, count = 0;

    for (; i + 32 <= n; i += 32) {
        uint32_t mask = 0;

        for (unsigned j = 0; j < 4; j++) {
            __m256i u = _mm256_loadu_si256((const void *)(x + i + 8 * j));
            __m256i over = _mm256_cmpgt_epi32(_mm256_and_si256(u, without_sign), below);

            mask |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(over)) << 8 * j;
        }
        count = spell(mask, i, positions, count);
    }
    return body_above(x, least, positions, i, count, n);
}

ON static void grid_drawn(const float *x, float inverse, const float *level, uint32_t top,
                          uint32_t key, uint8_t *restrict codes, size_t n)
{
    body_grid(x, inverse, NULL, level, top, true, key, codes, n);
}

ON static inline unsigned equal32(const uint8_t *codes, unsigned s)
{
    __m256i same = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)codes),
                                     _mm256_set1_epi8((char)s));

    return (unsigned)__builtin_popcount((uint32_t)_mm256_movemask_epi8(same));
}

ON static void count8(const uint8_t *codes, unsigned symbols, uint32_t *restrict counts, size_t n)
{
    if (symbols > 16) { /* to compare with each symbol takes longer than to count one by one */
        body_count8(codes, symbols, counts, n);
    } else {
        body_count8_compared(codes, symbols, counts, n, 32, equal32);
    }
}

ON static void lookup8_set(const uint8_t *codes, const float *value, unsigned count,
                           float *restrict y, size_t n)
{
    (void)count;
    body_lookup8(codes, value, false, y, n);
}

ON static void lookup8_add(const uint8_t *codes, const float *value, unsigned count,
                           float *restrict y, size_t n)
{
    (void)count;
    body_lookup8(codes, value, true, y, n);
}

const ps_kernels ps_kernels_avx2 = {
    .name = "avx2",
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
typedef int ps_no_kernels_avx2;

#endif
