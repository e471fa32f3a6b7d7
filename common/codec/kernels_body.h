/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_body.h - the loops that every table shares, in plain C.
 *
 * They are inlined into functions that are compiled for one kind of processor each, so the
 * compiler generates the vector code. Results do not depend on the processor: the loops use
 * only exactly rounded operations, no contraction (-ffp-contract=off), and no sum over values.
 */
#ifndef PS_COMMON_CODEC_KERNELS_BODY_H
#define PS_COMMON_CODEC_KERNELS_BODY_H

#include "common/base/draw.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "codecs copy memory as it is; this processor needs a byte swap"
#endif

#define PS_BODY static inline __attribute__((always_inline))

PS_BODY uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

PS_BODY float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* Converts to binary16, rounded to nearest even, as x86's VCVTPS2PH does, NaN bits included. */
PS_BODY uint16_t f16_of_f32(float f)
{
    uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u, mag = u & 0x7fffffffu;
    /* The last place of 0.5 is the smallest step of binary16, so the sum rounds a small
     * magnitude as binary16 does. */
    uint32_t small = bits_of(float_of(mag < 0x38800000u ? mag : 0) + 0.5f) - 0x3f000000u;
    uint32_t normal = (mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1u)) >> 13;
    uint32_t h = mag < 0x38800000u ? small : normal;

    h = mag >= 0x477ff000u ? 0x7c00u : h; /* 65520 and above round to infinity */
    h = mag > 0x7f800000u ? 0x7e00u | ((mag >> 13) & 0x3ffu) : h;
    return (uint16_t)(sign | h);
}

/* Converts exactly. A signalling NaN becomes quiet, as with VCVTPH2PS. */
PS_BODY float f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mag = h & 0x7fffu;
    uint32_t normal = (mag << 13) + 0x38000000u;
    /* 2^-14 plus the fraction, minus 2^-14. */
    uint32_t small = bits_of(float_of((mag << 13) + 0x38800000u) - float_of(0x38800000u));
    uint32_t u = mag < 0x400u ? small : normal;

    u = mag >= 0x7c00u ? 0x7f800000u | ((mag & 0x3ffu) << 13) : u;
    u = mag > 0x7c00u ? u | 0x400000u : u;
    return float_of(sign | u);
}

PS_BODY uint16_t load_u16(const uint8_t *in)
{
    uint16_t h;

    memcpy(&h, in, sizeof h);
    return h;
}

PS_BODY void body_f32_add(const uint8_t *in, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x;

        memcpy(&x, in + 4 * i, sizeof x);
        y[i] += x;
    }
}

PS_BODY void body_f16_encode(const float *x, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h = f16_of_f32(x[i]);

        memcpy(out + 2 * i, &h, sizeof h);
    }
}

PS_BODY void body_f16_set(const uint8_t *in, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = f32_of_f16(load_u16(in + 2 * i));
    }
}

PS_BODY void body_f16_add(const uint8_t *in, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += f32_of_f16(load_u16(in + 2 * i));
    }
}

PS_BODY uint32_t body_largest(const float *x, size_t n)
{
    int32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)(bits_of(x[i]) & 0x7fffffffu);

        most = magnitude > most ? magnitude : most;
    }
    return (uint32_t)most;
}

/* Takes about ten vector instructions besides the draw. u - 1/2 is made by writing the draw
 * below the exponent of 1.0. Adding 1.5 * 2^23 leaves the nearest integer in the low bits. All
 * steps are exact except the product with `inverse` and the sum v + (u - 1/2). */
PS_BODY void body_int8_encode(const float *x, float inverse, uint32_t key, uint8_t *out, size_t n)
{
    uint32_t counter = key;

    for (size_t i = 0; i < n; i++) {
        /* ps_draw_u32(key, i); the multiple of the index is a running sum. */
        uint32_t draw = ps_draw_u32(counter, 0);
        float u = float_of(0x3f800040u | ((draw >> 9) & 0x7fff80u)) - 1.5f;
        float v = x[i] * inverse;

        counter += UINT32_C(0x9e3779b9);
        out[i] = (uint8_t)bits_of((v + u) + 0x1.8p23f);
    }
}

PS_BODY void body_int8_set(const uint8_t *in, float scale, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)(int8_t)in[i] * scale;
    }
}

PS_BODY void body_int8_add(const uint8_t *in, float scale, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += (float)(int8_t)in[i] * scale;
    }
}

#endif
