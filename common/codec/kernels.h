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
