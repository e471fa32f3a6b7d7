/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the loops over values, once a kind of processor.
 *
 * Every table gives the same bytes and the same values to the last bit: the
 * plain one is the definition, the others are faster. Private to common/codec
 * and its tests.
 *
 * n is the number of values; byte pointers need no alignment; ranges do not
 * overlap.
 */
#ifndef PS_COMMON_CODEC_KERNELS_H
#define PS_COMMON_CODEC_KERNELS_H

#include "common/base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_kernels {
    const char *name; /* "plain", "avx2", "avx512" */

    void (*f32_add)(const uint8_t *in, float *y, size_t n); /* y += x */

    void (*f16_encode)(const float *x, uint8_t *out, size_t n);
    void (*f16_set)(const uint8_t *in, float *y, size_t n);
    void (*f16_add)(const uint8_t *in, float *y, size_t n);

    /* The largest of the values' bits without their signs: the bits of max|x|,
     * or more than those of FLT_MAX when a value is infinite or NaN. */
    uint32_t (*largest)(const float *x, size_t n);
    /* out[i] = the integer nearest to x[i] * inverse + u_i - 1/2, ties to even;
     * u_i = (h + 1/2) / 2^16, h the top 16 bits of ps_draw_u32(key, i). For
     * finite x with |x[i] * inverse| <= 127: then so is out[i], and an integer
     * x[i] * inverse is out[i] itself, whatever is drawn. */
    void (*int8_encode)(const float *x, float inverse, uint32_t key, uint8_t *out, size_t n);
    void (*int8_set)(const uint8_t *in, float scale, float *y, size_t n);
    void (*int8_add)(const uint8_t *in, float scale, float *y, size_t n);

    /* binary32's upper half, nearest even. */
    void (*bf16_encode)(const float *x, uint8_t *out, size_t n);
    void (*bf16_set)(const uint8_t *in, float *y, size_t n);
    void (*bf16_add)(const uint8_t *in, float *y, size_t n);

    /* Sums over finite values, in double and in one order: of |x|, of x * x, and
     * of |x| over those with the sign bit. */
    double (*sum_abs)(const float *x, size_t n);
    double (*sum_square)(const float *x, size_t n);
    double (*sum_negative)(const float *x, size_t n);

    /* Bit i % 8 of out[i / 8] is x[i]'s sign bit; bits behind the last are 0. */
    void (*signs_pack)(const float *x, uint8_t *out, size_t n);
    /* Bit set: minus, else plus. */
    void (*signs_set)(const uint8_t *in, float plus, float minus, float *y, size_t n);
    void (*signs_add)(const uint8_t *in, float plus, float minus, float *y, size_t n);

    /* codes[i] = q + limit, q the integer nearest to x[i] * inverse + u - 1/2 and
     * within +-limit; u drawn as in int8_encode, as number first + i. For finite
     * products. 8 and 16 are the widths of codes: limit is at most 127, 32767.
     * nearest*: without a draw, ties to even. */
    void (*levels8)(const float *x, float inverse, uint32_t limit, uint32_t key, size_t first,
                    uint8_t *codes, size_t n);
    void (*nearest8)(const float *x, float inverse, uint32_t limit, uint8_t *codes, size_t n);
    /* y = (code - limit) * scale */
    void (*values8_set)(const uint8_t *codes, uint32_t limit, float scale, float *y, size_t n);
    void (*values8_add)(const uint8_t *codes, uint32_t limit, float scale, float *y, size_t n);
    void (*levels16)(const float *x, float inverse, uint32_t limit, uint32_t key, size_t first,
                     uint16_t *codes, size_t n);
    void (*nearest16)(const float *x, float inverse, uint32_t limit, uint16_t *codes, size_t n);
    void (*values16_set)(const uint16_t *codes, uint32_t limit, float scale, float *y, size_t n);
    void (*values16_add)(const uint16_t *codes, uint32_t limit, float scale, float *y, size_t n);

    /* A sign above bits - 1 bits of level (2 <= bits <= 8): 0 stands for 0, c for
     * 2^(lowest - 127 + c - 1). A magnitude between two levels becomes the upper
     * one as often as it is near to it; above the highest it becomes that. */
    void (*powers)(const float *x, uint32_t lowest, unsigned bits, uint32_t key, uint8_t *codes,
                   size_t n);
    void (*power_set)(const uint8_t *codes, uint32_t lowest, unsigned bits, float *y, size_t n);
    void (*power_add)(const uint8_t *codes, uint32_t lowest, unsigned bits, float *y, size_t n);

    /* Five codes of 0..2 a byte: byte i holds codes i, i + m, ... i + 4 m. */
    void (*trits_pack)(const uint8_t *codes, uint8_t *out, size_t m); /* 5 m codes */
    void (*trits_unpack)(const uint8_t *in, uint8_t *codes, size_t m);

    /* out[0] = sum of w |x| b and out[1] = sum of w b b, b the nearest whole number to
     * |x| * inverse, at most `limit`; w the weights, or 1 (NULL). soft: b is
     * |x| * inverse itself, at most 1, and out[1] = sum of b. In one order, over runs
     * of 64 values that begin `stride` values apart, a multiple of 64. */
    void (*fit)(const float *x, const float *weights, float inverse, float limit, size_t stride,
                double *out, size_t n);
    void (*soft_fit)(const float *x, float inverse, size_t stride, double *out, size_t n);

    /* Levels level[0] = 0 to level[top], top <= 127, ascending, and level[top] once
     * more; edges[k] is between level[k - 1] and level[k]. codes[i] = top +- c by
     * x's sign: level[c] is nearest to |x| * inverse, or drawn from its neighbours
     * so that it is that on average; above the highest it is the highest. */
    void (*grid_nearest)(const float *x, float inverse, const float *edges, uint32_t top,
                         uint8_t *codes, size_t n);
    void (*grid_drawn)(const float *x, float inverse, const float *level, uint32_t top,
                       uint32_t key, uint8_t *codes, size_t n);
    /* As fit, b the nearest level, without weights. */
    void (*grid_fit)(const float *x, float inverse, const float *edges, const float *level,
                     uint32_t top, size_t stride, double *out, size_t n);

    /* Thin products, stride a multiple of 16: p (rank, rows) = q (rank, stride) times m
     * (rows, stride) transposed; q = p m; row (stride) = that of p^T q whose numbers
     * in p begin at p and are `rows` apart. */
    void (*rank_rows)(const float *m, size_t rows, size_t stride, const float *q, size_t rank,
                      float *p);
    void (*rank_columns)(const float *m, size_t rows, size_t stride, const float *p, size_t rank,
                         float *q);
    void (*rank_product)(const float *p, size_t rows, const float *q, size_t stride, size_t rank,
                         float *row);

    /* The positions, ascending, of the values whose bits without sign are at
     * least `least` (1 to 2^31 - 1); returns how many. n <= 65536. positions: (n). */
    size_t (*above)(const float *x, uint32_t least, uint16_t *positions, size_t n);
} ps_kernels;

/* Returns the table that a processor of this level runs. */
const ps_kernels *ps_kernels_of(ps_cpu level);

/* Returns that of ps_cpu_level(). Any thread; costs a load and a few tests. */
const ps_kernels *ps_kernels_best(void);

extern const ps_kernels ps_kernels_plain;
#if defined(__x86_64__)
extern const ps_kernels ps_kernels_avx2, ps_kernels_avx512;
#endif

#endif
