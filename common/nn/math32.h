/* SPDX-License-Identifier: Apache-2.0 */
/* math32.h - exp, tanh and the logistic function in float32, with the same bits on every host.
 *
 * All three use the reduction z = k ln 2 + r, |r| <= ln 2 / 2, e^z - 1 = 2^k (e^r - 1) + (2^k -
 * 1) (Cody and Waite 1980, chapter 6), with the Taylor polynomial of e^r - 1 up to r^7. The
 * polynomial's remainder r^8 / 8! is below 2^-26 of r. There is no table, branch or libm: a loop
 * over them vectorises, and the result does not depend on the libm of a host. Errors are below 4
 * units in the last place (tests/unit/test_activation.c). NaN stays NaN.
 */
#ifndef PS_COMMON_NN_MATH32_H
#define PS_COMMON_NN_MATH32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns e^r - 1 of the reduced argument, and *scale = 2^k. z is within [-87, 88]. */
static inline float ps_expm1_reduced(float z, float *scale)
{
    /* Adding 1.5 * 2^23 rounds to the nearest integer, which is then in the low bits. */
    float shifted = z * 0x1.715476p+0f + 0x1.8p+23f; /* log2 e */
    float k = shifted - 0x1.8p+23f;
    /* ln 2 in two parts; the product of k and the first part is exact. */
    float r = (z - k * 0x1.63p-1f) - k * -0x1.bd0106p-13f;
    float q = 1.0f / 5040;
    uint32_t bits;

    q = q * r + 1.0f / 720;
    q = q * r + 1.0f / 120;
    q = q * r + 1.0f / 24;
    q = q * r + 1.0f / 6;
    q = q * r + 0.5f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + UINT32_C(0x3f800000); /* exponent 127 + k, fraction 0 */
    memcpy(scale, &bits, sizeof *scale);
    return r + r * r * q;
}

/* Returns e^x. Clamps x to [-87, 88], where results are normal numbers. */
static inline float ps_exp_f32(float x)
{
    float low = x < -87.0f ? -87.0f : x;
    float z = low > 88.0f ? 88.0f : low;
    float scale;
    float p = ps_expm1_reduced(z, &scale);

    return scale * p + scale;
}

/* Returns tanh x, from e^2|x| - 1, which is exact for small x; 1 or -1 from |x| = 9.1 on. */
static inline float ps_tanh_f32(float x)
{
    float a = fabsf(x);
    float z = a > 9.1f ? 18.2f : a + a;
    float scale;
    float p = ps_expm1_reduced(z, &scale);
    float t = scale * p + (scale - 1.0f);

    return copysignf(t / (t + 2.0f), x);
}

/* Returns 1 / (1 + e^-x), from e^-|x|, so that neither tail loses digits. Clamps |x| to 87. */
static inline float ps_sigmoid_f32(float x)
{
    float a = fabsf(x);
    float scale;
    float p = ps_expm1_reduced(a > 87.0f ? -87.0f : -a, &scale);
    float e = scale * p + scale;

    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

#endif
