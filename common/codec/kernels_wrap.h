/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_wrap.h - compiles kernels_more.h, kernels_fit.h and kernels_rank.h for one kind of
 * processor, which ON names. No include guard: the file of each table includes it once. */
#include "common/codec/kernels_fit.h"
#include "common/codec/kernels_rank.h"

ON static void bf16_encode(const float *x, uint8_t *restrict out, size_t n)
{
    body_bf16_encode(x, out, n);
}

ON static void bf16_set(const uint8_t *in, float *restrict y, size_t n)
{
    body_bf16_set(in, y, n);
}

ON static void bf16_add(const uint8_t *in, float *restrict y, size_t n)
{
    body_bf16_add(in, y, n);
}

ON static double sum_abs(const float *x, size_t n)
{
    return body_sum(SUM_ABS, x, n);
}

ON static double sum_square(const float *x, size_t n)
{
    return body_sum(SUM_SQUARE, x, n);
}

ON static double sum_negative(const float *x, size_t n)
{
    return body_sum(SUM_NEGATIVE, x, n);
}

ON static void signs_set(const uint8_t *in, float plus, float minus, float *restrict y, size_t n)
{
    body_signs_set(in, plus, minus, y, n);
}

ON static void signs_add(const uint8_t *in, float plus, float minus, float *restrict y, size_t n)
{
    body_signs_add(in, plus, minus, y, n);
}

ON static void levels8(const float *x, float inverse, uint32_t limit, uint32_t key, size_t first,
                       uint8_t *restrict codes, size_t n)
{
    body_levels8(x, inverse, limit, true, key, first, codes, n);
}

ON static void nearest8(const float *x, float inverse, uint32_t limit, uint8_t *restrict codes,
                        size_t n)
{
    body_levels8(x, inverse, limit, false, 0, 0, codes, n);
}

ON static void values8_set(const uint8_t *codes, uint32_t limit, float scale, float *restrict y,
                           size_t n)
{
    body_values8(codes, limit, scale, false, y, n);
}

ON static void values8_add(const uint8_t *codes, uint32_t limit, float scale, float *restrict y,
                           size_t n)
{
    body_values8(codes, limit, scale, true, y, n);
}

ON static void levels16(const float *x, float inverse, uint32_t limit, uint32_t key, size_t first,
                        uint16_t *restrict codes, size_t n)
{
    body_levels16(x, inverse, limit, true, key, first, codes, n);
}

ON static void nearest16(const float *x, float inverse, uint32_t limit, uint16_t *restrict codes,
                         size_t n)
{
    body_levels16(x, inverse, limit, false, 0, 0, codes, n);
}

ON static void values16_set(const uint16_t *codes, uint32_t limit, float scale, float *restrict y,
                            size_t n)
{
    body_values16(codes, limit, scale, false, y, n);
}

ON static void values16_add(const uint16_t *codes, uint32_t limit, float scale, float *restrict y,
                            size_t n)
{
    body_values16(codes, limit, scale, true, y, n);
}

ON static void powers(const float *x, uint32_t lowest, unsigned bits, uint32_t key,
                      uint8_t *restrict codes, size_t n)
{
    body_powers(x, lowest, bits, key, codes, n);
}

ON static void power_set(const uint8_t *codes, uint32_t lowest, unsigned bits, float *restrict y,
                         size_t n)
{
    body_power_values(codes, lowest, bits, false, y, n);
}

ON static void power_add(const uint8_t *codes, uint32_t lowest, unsigned bits, float *restrict y,
                         size_t n)
{
    body_power_values(codes, lowest, bits, true, y, n);
}

ON static void trits_pack(const uint8_t *codes, uint8_t *restrict out, size_t m)
{
    body_trits_pack(codes, out, m);
}

ON static void trits_unpack(const uint8_t *in, uint8_t *restrict codes, size_t m)
{
    body_trits_unpack(in, codes, m);
}

ON static void fit(const float *x, const float *weights, float inverse, float limit, size_t stride,
                   double *out, size_t n)
{
    if (weights != NULL) {
        body_fit(x, weights, inverse, limit, false, stride, out, n);
    } else {
        body_fit(x, NULL, inverse, limit, false, stride, out, n);
    }
}

ON static void soft_fit(const float *x, float inverse, size_t stride, double *out, size_t n)
{
    body_fit(x, NULL, inverse, 1.0f, true, stride, out, n);
}

ON static void grid_nearest(const float *x, float inverse, const float *edges, uint32_t top,
                            uint8_t *restrict codes, size_t n)
{
    body_grid(x, inverse, edges, NULL, top, false, 0, codes, n);
}

ON static void grid_fit(const float *x, float inverse, const float *edges, const float *level,
                        uint32_t top, size_t stride, double *out, size_t n)
{
    body_grid_fit(x, inverse, edges, level, top, stride, out, n);
}

ON static void rank_rows(const float *m, size_t rows, size_t stride, const float *q, size_t rank,
                         float *restrict p)
{
    body_rank_rows(m, rows, stride, q, rank, p);
}

ON static void rank_columns(const float *m, size_t rows, size_t stride, const float *p, size_t rank,
                            float *restrict q)
{
    body_rank_columns(m, rows, stride, p, rank, q);
}

ON static void rank_product(const float *p, size_t rows, const float *q, size_t stride, size_t rank,
                            float *restrict row)
{
    body_rank_product(p, rows, q, stride, rank, row);
}

/* clang-format off */
#define PS_KERNELS_MORE \
    .bf16_encode = bf16_encode, .bf16_set = bf16_set, .bf16_add = bf16_add, \
    .sum_abs = sum_abs, .sum_square = sum_square, .sum_negative = sum_negative, \
    .signs_pack = signs_pack, .signs_set = signs_set, .signs_add = signs_add, \
    .levels8 = levels8, .nearest8 = nearest8, \
    .values8_set = values8_set, .values8_add = values8_add, \
    .levels16 = levels16, .nearest16 = nearest16, \
    .values16_set = values16_set, .values16_add = values16_add, \
    .powers = powers, .power_set = power_set, .power_add = power_add, \
    .trits_pack = trits_pack, .trits_unpack = trits_unpack, .above = above, \
    .fit = fit, .soft_fit = soft_fit, \
    .count8 = count8, .lookup8_set = lookup8_set, .lookup8_add = lookup8_add, \
    .grid_nearest = grid_nearest, .grid_drawn = grid_drawn, .grid_fit = grid_fit, \
    .rank_rows = rank_rows, .rank_columns = rank_columns, .rank_product = rank_product
/* clang-format on */
