/* SPDX-License-Identifier: Apache-2.0 */
/* steady.c - see steady.h. */
#include "common/base/steady.h"

#include <assert.h>
#include <math.h>

static const double ln2 = 0x1.62e42fefa39efp-1;
/* ln 2 as a sum. The product of ln2_high and a whole number below 2^20 is exact. */
static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;

double ps_steady_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent); /* in [0.5, 1), no rounding */
    double s, s2, sum = 0.0;

    if (m < 0x1.6a09e667f3bcdp-1) { /* sqrt(1/2) */
        m *= 2.0;
        exponent--;
    }
    /* ln m = 2 artanh s; |s| < 0.1716, so the next term would be below 2^-57. */
    s = (m - 1.0) / (m + 1.0);
    s2 = s * s;
    for (int k = 21; k >= 1; k -= 2) {
        sum = sum * s2 + 1.0 / k;
    }
    return 2.0 * s * sum + exponent * ln2;
}

double ps_steady_exp(double x)
{
    double k, r, sum = 1.0;

    assert(x <= 700.0);
    if (x < -700.0) {
        return 0.0;
    }
    k = floor(x / ln2 + 0.5);
    r = (x - k * ln2_high) - k * ln2_low; /* |r| < 0.347 */
    for (int i = 17; i >= 1; i--) {       /* the next term would be below 2^-79 */
        sum = sum * r / i + 1.0;
    }
    return ldexp(sum, (int)k);
}

double ps_steady_pow(double x, double y)
{
    return x == 0.0 ? 0.0 : ps_steady_exp(y * ps_steady_log(x));
}

double ps_steady_cos_pi(double x)
{
    static const double pi = 0x1.921fb54442d18p+1;
    double y2, sum = 1.0;

    assert(x >= 0.0 && x <= 1.0);
    if (x > 0.5) {
        return -ps_steady_cos_pi(1.0 - x);
    }
    y2 = pi * x * (pi * x);
    for (int i = 24; i >= 2; i -= 2) { /* the next term would be below 2^-70 */
        sum = 1.0 - sum * y2 / (i * (i - 1));
    }
    return sum;
}
