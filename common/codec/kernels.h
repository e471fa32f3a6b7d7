/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the loops over values, one table per kind of processor.
 *
 * All tables give the same bytes and the same values, to the last bit: the plain table is the
 * definition, the others are faster. For common/codec, its tests, and code of jobs.
 *
 * n is the number of values. Byte pointers need no alignment. Ranges do not overlap. Functions
 * named _set write y, functions named _add add to y.
 */
#ifndef PS_COMMON_CODEC_KERNELS_H
#define PS_COMMON_CODEC_KERNELS_H

#include "common/base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_kernels {
    const char *name; /* "plain", "avx2", "avx512" */

    void (*f32_add)(const uint8_t *in, float *y, size_t n); /* adds float32 values to y */

    /* Converts to binary16, rounded to nearest even. */
    void (*f16_encode)(const float *x, uint8_t *out, size_t n);
    void (*f16_set)(const uint8_t *in, float *y, size_t n);
    void (*f16_add)(const uint8_t *in, float *y, size_t n);

    /* Returns the largest of the values' bits without their signs: the bits of max|x|, or more
     * than those of FLT_MAX if a value is infinite or NaN. */
    uint32_t (*largest)(const float *x, size_t n);
    /* Writes the integer nearest to x[i] * inverse + u_i - 1/2, ties to even. u_i = (h + 1/2) /
     * 2^16, where h is the top 16 bits of ps_draw_u32(key, i). For finite x with |x[i] *
     * inverse| <= 127; then out[i] is within +-127 too, and an integer x[i] * inverse is out[i]
     * itself, whatever is drawn. */
    void (*int8_encode)(const float *x, float inverse, uint32_t key, uint8_t *out, size_t n);
    /* y = byte * scale, the bytes signed. */
    void (*int8_set)(const uint8_t *in, float scale, float *y, size_t n);
    void (*int8_add)(const uint8_t *in, float scale, float *y, size_t n);

    /* Writes the upper half of binary32, rounded to nearest even. */
    void (*bf16_encode)(const float *x, uint8_t *out, size_t n);
    void (*bf16_set)(const uint8_t *in, float *y, size_t n);
    void (*bf16_add)(const uint8_t *in, float *y, size_t n);

    /* Returns the sum of |x|. This and the next two sum finite values in double, in a fixed
     * order. */
    double (*sum_abs)(const float *x, size_t n);
    /* Returns the sum of x * x. */
    double (*sum_square)(const float *x, size_t n);
    /* Returns the sum of |x| over the values with the sign bit. */
    double (*sum_negative)(const float *x, size_t n);

    /* Writes the sign bit of x[i] to bit i % 8 of out[i / 8]; bits behind the last value are 0. */
    void (*signs_pack)(const float *x, uint8_t *out, size_t n);
    /* y = `minus` if the bit is set, else `plus`. */
    void (*signs_set)(const uint8_t *in, float plus, float minus, float *y, size_t n);
    void (*signs_add)(const uint8_t *in, float plus, float minus, float *y, size_t n);

    /* Writes codes[i] = q + limit, limit <= 127. q is the integer nearest to x[i] * inverse + u
     * - 1/2, clipped to +-limit; u is draw number first + i, as in int8_encode. The products
     * must be finite. */
    void (*levels8)(const float *x, float inverse, uint32_t limit, uint32_t key, size_t first,
                    uint8_t *codes, size_t n);
    /* Writes codes like levels8, but rounds to nearest, ties to even, without a draw. */
    void (*nearest8)(const float *x, float inverse, uint32_t limit, uint8_t *codes, size_t n);
    /* y = (code - limit) * scale. */
    void (*values8_set)(const uint8_t *codes, uint32_t limit, float scale, float *y, size_t n);
    void (*values8_add)(const uint8_t *codes, uint32_t limit, float scale, float *y, size_t n);
    /* Does what levels8 does, for codes of 16 bits and limit <= 32767. */
    void (*levels16)(const float *x, float inverse, uint32_t limit, uint32_t key, size_t first,
                     uint16_t *codes, size_t n);
    /* Does what nearest8 does, for codes of 16 bits. */
    void (*nearest16)(const float *x, float inverse, uint32_t limit, uint16_t *codes, size_t n);
    /* y = (code - limit) * scale. */
    void (*values16_set)(const uint16_t *codes, uint32_t limit, float scale, float *y, size_t n);
    void (*values16_add)(const uint16_t *codes, uint32_t limit, float scale, float *y, size_t n);

    /* Writes a sign above bits - 1 bits of level, 2 <= bits <= 8. Level 0 means 0, level c
     * means 2^(lowest - 127 + c - 1). A magnitude between two levels is rounded stochastically
     * so that the mean is right; above the highest level it becomes that. */
    void (*powers)(const float *x, uint32_t lowest, unsigned bits, uint32_t key, uint8_t *codes,
                   size_t n);
    /* y = the values of codes that `powers` wrote. */
    void (*power_set)(const uint8_t *codes, uint32_t lowest, unsigned bits, float *y, size_t n);
    void (*power_add)(const uint8_t *codes, uint32_t lowest, unsigned bits, float *y, size_t n);

    /* Packs 5 m codes of 0..2, five per byte: byte i holds the codes i, i + m, ... i + 4 m. */
    void (*trits_pack)(const uint8_t *codes, uint8_t *out, size_t m);
    /* Unpacks m bytes to 5 m codes. */
    void (*trits_unpack)(const uint8_t *in, uint8_t *codes, size_t m);

    /* Writes out[0] = sum of w |x| b and out[1] = sum of w b b. b is |x| * inverse rounded to
     * nearest, at most `limit`; w are the weights, or 1 if they are NULL. Sums in a fixed order
     * over runs of 64 values that begin `stride` values apart, a multiple of 64. */
    void (*fit)(const float *x, const float *weights, float inverse, float limit, size_t stride,
                double *out, size_t n);
    /* Does what fit does without weights, with b = |x| * inverse unrounded, at most 1, and
     * out[1] = sum of b. */
    void (*soft_fit)(const float *x, float inverse, size_t stride, double *out, size_t n);

    /* Writes codes[i] = top +- c by the sign of x, where level[c] is nearest to |x| * inverse.
     * The levels ascend from level[0] = 0 to level[top], top <= 127; edges[k] lies between
     * level[k - 1] and level[k]. Magnitudes above the highest level become that. */
    void (*grid_nearest)(const float *x, float inverse, const float *edges, uint32_t top,
                         uint8_t *codes, size_t n);
    /* Does what grid_nearest does, but c is drawn from the two neighbours so that the mean is
     * right. level[top + 1] must repeat level[top]. */
    void (*grid_drawn)(const float *x, float inverse, const float *level, uint32_t top,
                       uint32_t key, uint8_t *codes, size_t n);
    /* Does what fit does without weights, with b the nearest level. */
    void (*grid_fit)(const float *x, float inverse, const float *edges, const float *level,
                     uint32_t top, size_t stride, double *out, size_t n);

    /* Counts codes (n): counts[s] = how many are s, for s < symbols <= 256. All codes are below
     * `symbols`. */
    void (*count8)(const uint8_t *codes, unsigned symbols, uint32_t *counts, size_t n);
    /* y = value[code]. All codes are below `count` <= 256, the length of `value`. */
    void (*lookup8_set)(const uint8_t *codes, const float *value, unsigned count, float *y,
                        size_t n);
    void (*lookup8_add)(const uint8_t *codes, const float *value, unsigned count, float *y,
                        size_t n);

    /* Computes p (rank, rows) = q (rank, stride) times m (rows, stride) transposed. stride is a
     * multiple of 16 in this and the next two. */
    void (*rank_rows)(const float *m, size_t rows, size_t stride, const float *q, size_t rank,
                      float *p);
    /* Computes q (rank, stride) = p (rank, rows) times m (rows, stride). */
    void (*rank_columns)(const float *m, size_t rows, size_t stride, const float *p, size_t rank,
                         float *q);
    /* Computes one row (stride) of p^T q. The numbers of that row begin at p and are `rows`
     * apart. */
    void (*rank_product)(const float *p, size_t rows, const float *q, size_t stride, size_t rank,
                         float *row);

    /* Writes the positions, ascending, of the values whose bits without sign are at least
     * `least` (1 to 2^31 - 1) to positions (n), n <= 65536. Returns how many. */
    size_t (*above)(const float *x, uint32_t least, uint16_t *positions, size_t n);
} ps_kernels;

/* Returns the table that a processor of this level runs. */
const ps_kernels *ps_kernels_of(ps_cpu level);

/* Returns the table of ps_cpu_level(). Any thread; costs a load and a few tests. */
const ps_kernels *ps_kernels_best(void);

extern const ps_kernels ps_kernels_plain;
#if defined(__x86_64__)
extern const ps_kernels ps_kernels_avx2, ps_kernels_avx512;
#endif

#endif
