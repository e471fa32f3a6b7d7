/* SPDX-License-Identifier: Apache-2.0 */
/* close.h - compares computed numbers with expected ones. */
#ifndef PS_TESTS_SUPPORT_CLOSE_H
#define PS_TESTS_SUPPORT_CLOSE_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* Returns whether |got - want| <= tolerance; false if one of them is NaN. If not, prints `what`
 * with the index i and both numbers to stderr. */
static inline bool is_close(double got, double want, double tolerance, const char *what, size_t i)
{
    if (fabs(got - want) <= tolerance) {
        return true;
    }
    fprintf(stderr, "%s[%zu]: %.9g, should be %.9g within %.3g\n", what, i, got, want, tolerance);
    return false;
}

#endif
