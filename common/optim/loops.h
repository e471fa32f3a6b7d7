/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h - definitions that rules share. A rule is an inline function of one point; body.h has the
 * loops that call it. Private to common/optim. */
#ifndef PS_COMMON_OPTIM_LOOPS_H
#define PS_COMMON_OPTIM_LOOPS_H

#include "common/base/clones.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

/* One value of a variable. */
typedef struct ps_point {
    float g, w;   /* gradient, weight */
    float *a, *b; /* slots 0 and 1 of the value's state; NULL: the rule has no such slot */
} ps_point;

/* Stands before a loop whose pointers are equal or do not overlap, so that no iteration reads what
 * another one writes; the compiler may then vectorise it. */
#if defined(__clang__)
#define PS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define PS_INDEPENDENT _Pragma("GCC ivdep")
#else
#define PS_INDEPENDENT
#endif

/* Returns `mean`, or zero if it is subnormal. A subnormal running mean moves no weight. It
 * would never decay to zero, and processors multiply subnormal numbers about a hundred times
 * slower. */
static inline float ps_or_zero(float mean)
{
    return fabsf(mean) < FLT_MIN ? 0.0f : mean;
}

/* Returns base^exponent, computed by products only: libm's pow differs between hosts. */
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
