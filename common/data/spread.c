/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c - see spread.h.
 *
 * Where the non-zero bytes of the next 64 begin depends only on one bit count of the 64 before, so
 * the processor works on several such blocks at a time. The bytes become floats in the same
 * registers.
 */
#include "common/data/spread.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { GROUP = PS_SPREAD_GROUP, BLOCK = PS_SPREAD_BLOCK, NOWHERE = 0x80 };

void ps_spread_fill(ps_spread_places *places)
{
    for (size_t bits = 0; bits < PS_SPREAD_GROUP_VALUES; bits++) {
        uint8_t next = 0;

        for (size_t k = 0; k < GROUP; k++) {
            places->of[bits][k] = (bits >> k & 1) != 0 ? next++ : (uint8_t)NOWHERE;
        }
    }
}

static void spread_plain(const ps_spread_places *places, const uint8_t *bits, const uint8_t *from,
                         size_t n, const ps_affine *affine, float *x)
{
    uint8_t bytes[GROUP];

    for (size_t at = 0; at < n; at += GROUP, bits++) {
        size_t some = n - at < GROUP ? n - at : GROUP;

        for (size_t k = 0; k < some; k++) {
            uint8_t place = places->of[*bits][k];

            bytes[k] = place == NOWHERE ? 0 : from[place];
        }
        ps_bytes_scale(bytes, x + at, some);
        for (size_t k = at; k < at + some; k++) {
            x[k] = (x[k] - affine->mean) * affine->inverse;
        }
        from += __builtin_popcount(*bits);
    }
}

#ifdef __x86_64__
__attribute__((target("avx2,popcnt"))) static void spread_avx2(const ps_spread_places *places,
                                                               const uint8_t *bits,
                                                               const uint8_t *from, size_t n,
                                                               const ps_affine *affine, float *x)
{
    const __m256 step = _mm256_set1_ps(1.0f / 255.0f), half = _mm256_set1_ps(0.5f);
    const __m256 mean = _mm256_set1_ps(affine->mean), inverse = _mm256_set1_ps(affine->inverse);

    for (; n >= BLOCK; n -= BLOCK, bits += BLOCK / GROUP) {
        uint64_t there;

        memcpy(&there, bits, sizeof there);
        for (unsigned k = 0; k < BLOCK / GROUP; k++, x += GROUP) {
            uint64_t before = there & ((UINT64_C(1) << GROUP * k) - 1);
            __m128i some = _mm_loadl_epi64((const void *)(from + __builtin_popcountll(before)));
            __m128i place = _mm_loadl_epi64((const void *)places->of[bits[k]]);
            __m256i bytes = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(some, place));
            __m256 values = _mm256_mul_ps(_mm256_cvtepi32_ps(bytes), step);

            values = _mm256_sub_ps(_mm256_sub_ps(values, half), mean);
            _mm256_storeu_ps(x, _mm256_mul_ps(values, inverse));
        }
        from += __builtin_popcountll(there);
    }
    spread_plain(places, bits, from, n, affine, x);
}

/* Spreads one block of BLOCK bytes and stores the floats whose bit in `wanted` is 1. */
__attribute__((target("avx512f,avx512bw,avx512vbmi2,popcnt"), always_inline)) static inline void
spread_block(uint64_t there, const uint8_t *from, const ps_affine *affine, uint64_t wanted,
             float *x)
{
    const __m512 step = _mm512_set1_ps(1.0f / 255.0f), half = _mm512_set1_ps(0.5f);
    const __m512 mean = _mm512_set1_ps(affine->mean), inverse = _mm512_set1_ps(affine->inverse);
    __m512i bytes = _mm512_maskz_expand_epi8(there, _mm512_loadu_si512(from));
    const __m128i quarter[] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                               _mm512_extracti32x4_epi32(bytes, 2),
                               _mm512_extracti32x4_epi32(bytes, 3)};

    for (size_t k = 0; k < 4; k++) {
        __m512i wide = _mm512_cvtepu8_epi32(quarter[k]);
        __m512 values = _mm512_mul_ps(_mm512_cvtepi32_ps(wide), step);

        values = _mm512_sub_ps(_mm512_sub_ps(values, half), mean);
        _mm512_mask_storeu_ps(x + 16 * k, (__mmask16)(wanted >> 16 * k),
                              _mm512_mul_ps(values, inverse));
    }
}

__attribute__((target("avx512f,avx512bw,avx512vbmi2,popcnt"))) static void
spread_avx512(const ps_spread_places *places, const uint8_t *bits, const uint8_t *from, size_t n,
              const ps_affine *affine, float *x)
{
    uint64_t there = 0;

    (void)places;
    for (; n >= BLOCK; n -= BLOCK, bits += BLOCK / GROUP, x += BLOCK) {
        memcpy(&there, bits, sizeof there);
        spread_block(there, from, affine, UINT64_MAX, x);
        from += __builtin_popcountll(there);
    }
    if (n > 0) {
        there = 0;
        memcpy(&there, bits, (n + GROUP - 1) / GROUP);
        spread_block(there, from, affine, (UINT64_C(1) << n) - 1, x);
    }
}
#endif

ps_spread_fn *ps_spread_of(ps_cpu level)
{
#ifdef __x86_64__
    if (level >= PS_CPU_AVX512 && ps_cpu_has_vbmi2()) {
        return spread_avx512;
    }
    if (level >= PS_CPU_AVX2) {
        return spread_avx2;
    }
#endif
    (void)level;
    return spread_plain;
}
