/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h - what the rules of this directory share.
 *
 * A rule is an inline function of one point; body.h has the loops over it. For
 * common/optim alone.
 */
#ifndef PS_COMMON_OPTIM_LOOPS_H
#define PS_COMMON_OPTIM_LOOPS_H

#include "common/base/clones.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

/* One value of a variable. */
typedef struct ps_point {
    float g, w;   /* gradient, weight */
    float *a, *b; /* its state; NULL: the rule has none, or only one */
} ps_point;

/* Before a loop whose pointers are equal or overlap nothing: no turn of it
 * reads what another one writes. */
#if defined(__clang__)
#define PS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define PS_INDEPENDENT _Pragma("GCC ivdep")
#else
#define PS_INDEPENDENT
#endif

/* A running mean below the normal numbers counts as zero: it moves no weight, but
 * would be stuck there, where processors take a hundred times as long for a product. */
static inline float ps_or_zero(float mean)
{
    return fabsf(mean) < FLT_MIN ? 0.0f : mean;
}

/* base^exponent by products only: libm's pow may differ from host to host. */
static inline double ps_power(double base, uint64_t exponent)
{
    double result = 1.0;

    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) {
            result *= base;
        }
        base *= base;
    }
    return result;
}

#endif
