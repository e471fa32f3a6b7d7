/* SPDX-License-Identifier: Apache-2.0 */
/* close.h - comparing what is computed with what should come out. */
#ifndef PS_TESTS_SUPPORT_CLOSE_H
#define PS_TESTS_SUPPORT_CLOSE_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether |got - want| <= tolerance; says what was where if not. NaN is close to nothing. */
static inline bool is_close(double got, double want, double tolerance, const char *what, size_t i)
{
    if (fabs(got - want) <= tolerance) {
        return true;
    }
    fprintf(stderr, "%s[%zu]: %.9g, should be %.9g within %.3g\n", what, i, got, want, tolerance);
    return false;
}

#endif
