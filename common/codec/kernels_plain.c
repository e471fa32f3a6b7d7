/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_plain.c - the kernels for any processor. */
#include "common/codec/kernels.h"
#define ON /* any processor */
#include "common/codec/kernels_wrap.h"

static void f32_add(const uint8_t *in, float *restrict y, size_t n)
{
    body_f32_add(in, y, n);
}

static void f16_encode(const float *x, uint8_t *restrict out, size_t n)
{
    body_f16_encode(x, out, n);
}

static void f16_set(const uint8_t *in, float *restrict y, size_t n)
{
    body_f16_set(in, y, n);
}

static void f16_add(const uint8_t *in, float *restrict y, size_t n)
{
    body_f16_add(in, y, n);
}

static uint32_t largest(const float *x, size_t n)
{
    return body_largest(x, n);
}

static void int8_encode(const float *x, float inverse, uint32_t key, uint8_t *restrict out,
                        size_t n)
{
    body_int8_encode(x, inverse, key, out, n);
}

static void int8_set(const uint8_t *in, float scale, float *restrict y, size_t n)
{
    body_int8_set(in, scale, y, n);
}

static void int8_add(const uint8_t *in, float scale, float *restrict y, size_t n)
{
    body_int8_add(in, scale, y, n);
}

static void signs_pack(const float *x, uint8_t *restrict out, size_t n)
{
    body_signs_pack(x, out, n);
}

static size_t above(const float *x, uint32_t least, uint16_t *restrict positions, size_t n)
{
    return body_above(x, least, positions, 0, 0, n);
}

static void grid_drawn(const float *x, float inverse, const float *level, uint32_t top,
                       uint32_t key, uint8_t *restrict codes, size_t n)
{
    body_grid(x, inverse, NULL, level, top, true, key, codes, n);
}

static void count8(const uint8_t *codes, unsigned symbols, uint32_t *restrict counts, size_t n)
{
    body_count8(codes, symbols, counts, n);
}

static void lookup8_set(const uint8_t *codes, const float *value, unsigned count, float *restrict y,
                        size_t n)
{
    (void)count;
    body_lookup8(codes, value, false, y, n);
}

static void lookup8_add(const uint8_t *codes, const float *value, unsigned count, float *restrict y,
                        size_t n)
{
    (void)count;
    body_lookup8(codes, value, true, y, n);
}

const ps_kernels ps_kernels_plain = {
    .name = "plain",
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
