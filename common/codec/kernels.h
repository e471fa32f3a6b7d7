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

#include <stddef.h>
#include <stdint.h>

typedef struct ps_kernels {
    const char *name; /* "plain", "avx2", "avx512" */

    void (*f32_add)(const uint8_t *in, float *y, size_t n); /* y += x */

    void (*f16_encode)(const float *x, uint8_t *out, size_t n);
    void (*f16_set)(const uint8_t *in, float *y, size_t n);
    void (*f16_add)(const uint8_t *in, float *y, size_t n);

    /* The largest finite |x|; 0 when there is none. */
    float (*finite_max)(const float *x, size_t n);
    /* out[i] = floor(v) + (u_i < v - floor(v)) for v = x[i] / scale, held
     * within +-127; NaN gives 0; u_i in [0, 1) is the top 24 bits of
     * ps_draw_u32(key, i) / 2^24. scale is finite and > 0. */
    void (*int8_encode)(const float *x, float scale, uint32_t key, uint8_t *out, size_t n);
    void (*int8_set)(const uint8_t *in, float scale, float *y, size_t n);
    void (*int8_add)(const uint8_t *in, float scale, float *y, size_t n);
} ps_kernels;

/* The fastest that this processor runs. Any thread; costs a load and a test. */
const ps_kernels *ps_kernels_best(void);

/* Calls fn once for each table that this processor runs, plain first. */
void ps_kernels_each(void (*fn)(const ps_kernels *k, void *arg), void *arg);

extern const ps_kernels ps_kernels_plain;
#if defined(__x86_64__)
extern const ps_kernels ps_kernels_avx2;   /* AVX2, F16C */
extern const ps_kernels ps_kernels_avx512; /* AVX-512 F, BW, DQ, VL */
#endif

#endif
