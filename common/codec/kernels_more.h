/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_more.h - loops of the codecs that quantise, in plain C like kernels_body.h.
 *
 * Unlike those of kernels_body.h, some loops sum over values: in sixteen partial sums of double,
 * value i in sum i mod 16, added in a fixed order at the end. So vectors of any width give the same
 * bits.
 */
#ifndef PS_COMMON_CODEC_KERNELS_MORE_H
#define PS_COMMON_CODEC_KERNELS_MORE_H

#include "common/codec/kernels_body.h"

#include <stdbool.h>

/* ---- bf16 ---- */

/* Returns the upper half, rounded to nearest even. A NaN becomes a quiet NaN. */
PS_BODY uint16_t bf16_of_f32(float f)
{
    uint32_t u = bits_of(f), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;

    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : r);
}

PS_BODY void body_bf16_encode(const float *x, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h = bf16_of_f32(x[i]);

        memcpy(out + 2 * i, &h, sizeof h);
    }
}

PS_BODY void body_bf16_set(const uint8_t *in, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = float_of((uint32_t)load_u16(in + 2 * i) << 16);
    }
}

PS_BODY void body_bf16_add(const uint8_t *in, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += float_of((uint32_t)load_u16(in + 2 * i) << 16);
    }
}

/* ---- sums ---- */

enum { SUM_LANES = 16 };

typedef enum sum_kind { SUM_ABS, SUM_SQUARE, SUM_NEGATIVE } sum_kind;

PS_BODY double term(sum_kind kind, float x)
{
    uint32_t u = bits_of(x);

    switch (kind) {
    case SUM_ABS:
        return (double)float_of(u & 0x7fffffffu);
    case SUM_SQUARE:
        return (double)x * (double)x;
    case SUM_NEGATIVE:
        return (double)float_of(u & 0x7fffffffu & (0u - (u >> 31)));
    }
    return 0;
}

PS_BODY double body_sum(sum_kind kind, const float *x, size_t n)
{
    double part[SUM_LANES] = {0};
    size_t i = 0;

    for (; i + SUM_LANES <= n; i += SUM_LANES) {
        for (size_t j = 0; j < SUM_LANES; j++) {
            part[j] += term(kind, x[i + j]);
        }
    }
    for (size_t j = 0; i + j < n; j++) {
        part[j] += term(kind, x[i + j]);
    }
    for (size_t half = SUM_LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            part[j] += part[j + half];
        }
    }
    return part[0];
}

/* ---- signs ---- */

PS_BODY void body_signs_pack(const float *x, uint8_t *out, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint32_t byte = 0;

        for (unsigned j = 0; j < 8; j++) {
            byte |= (bits_of(x[i + j]) >> 31) << j;
        }
        out[i / 8] = (uint8_t)byte;
    }
    if (i < n) {
        uint32_t byte = 0;

        for (unsigned j = 0; i + j < n; j++) {
            byte |= (bits_of(x[i + j]) >> 31) << j;
        }
        out[i / 8] = (uint8_t)byte;
    }
}

PS_BODY void body_signs_set(const uint8_t *in, float plus, float minus, float *y, size_t n)
{
    uint32_t p = bits_of(plus), change = p ^ bits_of(minus);
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint32_t byte = in[i / 8];

        for (unsigned j = 0; j < 8; j++) {
            y[i + j] = float_of(p ^ (change & (0u - ((byte >> j) & 1u))));
        }
    }
    for (; i < n; i++) {
        y[i] = float_of(p ^ (change & (0u - ((uint32_t)(in[i / 8] >> (i % 8)) & 1u))));
    }
}

PS_BODY void body_signs_add(const uint8_t *in, float plus, float minus, float *y, size_t n)
{
    uint32_t p = bits_of(plus), change = p ^ bits_of(minus);
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint32_t byte = in[i / 8];

        for (unsigned j = 0; j < 8; j++) {
            y[i + j] += float_of(p ^ (change & (0u - ((byte >> j) & 1u))));
        }
    }
    for (; i < n; i++) {
        y[i] += float_of(p ^ (change & (0u - ((uint32_t)(in[i / 8] >> (i % 8)) & 1u))));
    }
}

/* ---- levels ---- */

/* Returns the integer nearest to x * inverse + u - 1/2, clipped to +-limit. u is that of
 * body_int8_encode, or 1/2 without a draw. */
PS_BODY uint32_t level(float x, float inverse, float limit, bool draws, uint32_t counter)
{
    float u = 0.0f, v = x * inverse;

    if (draws) {
        u = float_of(0x3f800040u | ((ps_draw_u32(counter, 0) >> 9) & 0x7fff80u)) - 1.5f;
    }
    v += u;
    v = v > limit ? limit : v;
    v = v < -limit ? -limit : v;
    return bits_of(v + 0x1.8p23f);
}

/* Returns the counter of ps_draw_u32(key, first). */
PS_BODY uint32_t counter_at(uint32_t key, size_t first)
{
    return key + (uint32_t)first * UINT32_C(0x9e3779b9);
}

PS_BODY void body_levels8(const float *x, float inverse, uint32_t limit, bool draws, uint32_t key,
                          size_t first, uint8_t *codes, size_t n)
{
    uint32_t counter = counter_at(key, first);

    for (size_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)(level(x[i], inverse, (float)limit, draws, counter) + limit);
        counter += UINT32_C(0x9e3779b9);
    }
}

PS_BODY void body_levels16(const float *x, float inverse, uint32_t limit, bool draws, uint32_t key,
                           size_t first, uint16_t *codes, size_t n)
{
    uint32_t counter = counter_at(key, first);

    for (size_t i = 0; i < n; i++) {
        codes[i] = (uint16_t)(level(x[i], inverse, (float)limit, draws, counter) + limit);
        counter += UINT32_C(0x9e3779b9);
    }
}

PS_BODY void body_values8(const uint8_t *codes, uint32_t limit, float scale, bool adds, float *y,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = (float)((int32_t)codes[i] - (int32_t)limit) * scale;

        y[i] = adds ? y[i] + v : v;
    }
}

PS_BODY void body_values16(const uint16_t *codes, uint32_t limit, float scale, bool adds, float *y,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = (float)((int32_t)codes[i] - (int32_t)limit) * scale;

        y[i] = adds ? y[i] + v : v;
    }
}

/* ---- powers of two ---- */

/* Writes codes as ps_kernels.powers says. The draw is added to the fraction of x, so it carries
 * into the exponent as often as the fraction demands. Below the lowest power the draw decides
 * between that power and 0. */
PS_BODY void body_powers(const float *x, uint32_t lowest, unsigned bits, uint32_t key,
                         uint8_t *codes, size_t n)
{
    uint32_t counter = key, most = (1u << (bits - 1)) - 1;
    float low = float_of(lowest << 23);

    for (size_t i = 0; i < n; i++) {
        uint32_t draw = ps_draw_u32(counter, 0) >> 9, u = bits_of(x[i]), mag = u & 0x7fffffffu;
        int32_t code = (int32_t)((mag + draw) >> 23) - (int32_t)lowest + 1;
        float share = (float_of(0x3f800000u | draw) - 1.0f) * low; /* not negative */
        int32_t small = bits_of(share) < mag;

        counter += UINT32_C(0x9e3779b9);
        code = mag < lowest << 23 ? small : code;
        code = code > (int32_t)most ? (int32_t)most : code;
        codes[i] = (uint8_t)((uint32_t)code | (u >> 31) << (bits - 1));
    }
}

PS_BODY void body_power_values(const uint8_t *codes, uint32_t lowest, unsigned bits, bool adds,
                               float *y, size_t n)
{
    uint32_t most = (1u << (bits - 1)) - 1;

    for (size_t i = 0; i < n; i++) {
        uint32_t code = codes[i] & most, sign = (uint32_t)(codes[i] >> (bits - 1)) << 31;
        float v = float_of(sign | (code == 0 ? 0u : (lowest - 1 + code) << 23));

        y[i] = adds ? y[i] + v : v;
    }
}

/* ---- trits ---- */

PS_BODY void body_trits_pack(const uint8_t *codes, uint8_t *out, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        out[i] = (uint8_t)(codes[i] + 3 * codes[i + m] + 9 * codes[i + 2 * m] +
                           27 * codes[i + 3 * m] + 81 * codes[i + 4 * m]);
    }
}

PS_BODY void body_trits_unpack(const uint8_t *in, uint8_t *codes, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        uint16_t left = in[i];

        for (size_t j = 0; j < 5; j++) {
            /* division by 3, exact up to 255 */
            uint16_t third = (uint16_t)((uint32_t)left * 171 >> 9);

            codes[i + j * m] = (uint8_t)(left - 3 * third);
            left = third;
        }
    }
}

/* ---- the large ones ---- */

PS_BODY size_t body_above(const float *x, uint32_t least, uint16_t *positions, size_t start,
                          size_t count, size_t n)
{
    for (size_t i = start; i < n; i++) {
        positions[count] = (uint16_t)i;
        count += (bits_of(x[i]) & 0x7fffffffu) >= least;
    }
    return count;
}

/* Appends the positions of the bits that are set in `mask`; bit 0 is position `start`. Returns the
 * new count. */
PS_BODY size_t spell(uint32_t mask, size_t start, uint16_t *positions, size_t count)
{
    for (; mask != 0; mask &= mask - 1) {
        positions[count++] = (uint16_t)(start + (unsigned)__builtin_ctz(mask));
    }
    return count;
}

#endif
