/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx512.c - the kernels for x86-64 with AVX-512. */
#include "common/codec/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx2,popcnt,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
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

/* Up to 32 floats in two registers, from which a permutation reads. */
typedef struct table32 {
    __m512 low, high;
} table32;

ON static table32 load_table(const float *value, size_t count)
{
    float room[32] = {0};

    memcpy(room, value, count * sizeof *room);
    return (table32){_mm512_loadu_ps(room), _mm512_loadu_ps(room + 16)};
}

ON static __m512 look_up(const table32 *t, __m512i at)
{
    return _mm512_permutex2var_ps(t->low, at, t->high);
}

/* Returns ps_draw_u32 of sixteen counters. */
ON static __m512i draw16(__m512i x)
{
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)),
                           _mm512_set1_epi32(0x21f0aaad));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)),
                           _mm512_set1_epi32((int)0xd35a2d97u));
    return _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
}

/* Draws codes as body_grid of kernels_fit.h does, but keeps the levels of a short grid (top at most
 * 30) in registers. */
ON static void grid_drawn(const float *x, float inverse, const float *level, uint32_t top,
                          uint32_t key, uint8_t *restrict codes, size_t n)
{
    const __m512i one = _mm512_set1_epi32(1), tops = _mm512_set1_epi32((int)top);
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i stride = _mm512_set1_epi32((int)PS_DRAW_U32_STRIDE);
    bool is_short = top + 2 <= 32;
    table32 levels = load_table(level, is_short ? top + 2 : 0);
    size_t i = 0;

    for (; is_short && i + 16 <= n; i += 16) {
        __m512i counter = _mm512_add_epi32(_mm512_set1_epi32((int)counter_at(key, i)),
                                           _mm512_mullo_epi32(steps, stride));
        __m512 v = _mm512_loadu_ps(x + i), m, low, gap, u;
        __m512i c = _mm512_setzero_si512();
        __mmask16 is_below, has_next;

        m = _mm512_mul_ps(_mm512_abs_ps(v), _mm512_set1_ps(inverse));
        for (uint32_t k = 1; k <= top; k++) {
            __mmask16 is_reached = _mm512_cmp_ps_mask(m, _mm512_set1_ps(level[k]), _CMP_GE_OQ);

            c = _mm512_mask_add_epi32(c, is_reached, c, one);
        }
        low = look_up(&levels, c);
        gap = _mm512_sub_ps(look_up(&levels, _mm512_add_epi32(c, one)), low);
        u = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(draw16(counter), 8)),
                          _mm512_set1_ps(0x1p-24f));
        is_below = _mm512_cmp_ps_mask(_mm512_mul_ps(gap, u), _mm512_sub_ps(m, low), _CMP_LT_OQ);
        has_next = _mm512_cmp_ps_mask(gap, _mm512_setzero_ps(), _CMP_GT_OQ);
        c = _mm512_mask_add_epi32(c, _kand_mask16(is_below, has_next), c, one);
        c = _mm512_mask_sub_epi32(_mm512_add_epi32(tops, c),
                                  _mm512_movepi32_mask(_mm512_castps_si512(v)), tops, c);
        _mm_storeu_si128((void *)(codes + i), _mm512_cvtepi32_epi8(c));
    }
    body_grid(x + i, inverse, NULL, level, top, true, counter_at(key, i), codes + i, n - i);
}

ON static inline unsigned equal64(const uint8_t *codes, unsigned s)
{
    return (unsigned)__builtin_popcountll(
        _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(codes), _mm512_set1_epi8((char)s)));
}

ON static void count8(const uint8_t *codes, unsigned symbols, uint32_t *restrict counts, size_t n)
{
    if (symbols > 32) { /* to compare with each symbol takes longer than to count one by one */
        body_count8(codes, symbols, counts, n);
    } else {
        body_count8_compared(codes, symbols, counts, n, 64, equal64);
    }
}

/* Sets or adds the values of codes, from registers if there are at most 32 different ones. */
ON static inline __attribute__((always_inline)) void
lookup8(const uint8_t *codes, const float *value, unsigned count, bool adds, float *y, size_t n)
{
    table32 values = load_table(value, count <= 32 ? count : 0);
    size_t i = 0;

    for (; count <= 32 && i + 16 <= n; i += 16) {
        __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(codes + i)));
        __m512 x = look_up(&values, at);

        _mm512_storeu_ps(y + i, adds ? _mm512_add_ps(_mm512_loadu_ps(y + i), x) : x);
    }
    body_lookup8(codes + i, value, adds, y + i, n - i);
}

ON static void lookup8_set(const uint8_t *codes, const float *value, unsigned count,
                           float *restrict y, size_t n)
{
    lookup8(codes, value, count, false, y, n);
}

ON static void lookup8_add(const uint8_t *codes, const float *value, unsigned count,
                           float *restrict y, size_t n)
{
    lookup8(codes, value, count, true, y, n);
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
