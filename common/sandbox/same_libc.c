/* SPDX-License-Identifier: Apache-2.0 */
/* same_libc.c - see same_libc.h. libc's pow differs in the last bit between processors with and
 * without fused multiply-add. */
#include "common/sandbox/same_libc.h"

#include "common/base/steady.h"

#include <math.h>
#include <stdbool.h>
#include <time.h>

/* Makes a function visible to the Lua library, which then calls it instead of libc's. */
#define INSTEAD __attribute__((visibility("default")))

INSTEAD double pow(double x, double y);
INSTEAD time_t time(time_t *out);
INSTEAD clock_t clock(void);

enum {
    WHOLE_MAX = 64,  /* greatest whole exponent for which powers are computed by multiplication */
    TWOS_MAX = 4096, /* greatest whole exponent y for which (2^k)^y is computed as 2^(k * y) */
};

/* Returns x^n by squaring. */
static double whole_power(double x, unsigned n)
{
    double result = 1.0;

    for (; n > 0; n >>= 1) {
        result = (n & 1) != 0 ? result * x : result;
        x *= x;
    }
    return result;
}

/* Returns e^t for any t. Halves t, because ps_steady_exp takes none as large as that of the largest
 * double. */
static double wide_exp(double t)
{
    double half;

    if (t > 710.0) {
        return HUGE_VAL;
    }
    half = ps_steady_exp(t < -1400.0 ? -700.0 : t / 2);
    return half * half;
}

/* Returns the logarithm of a finite x > 0. */
static double wide_log(double x)
{
    return isnormal(x) ? ps_steady_log(x) : ps_steady_log(x * 0x1p54) - 54 * ps_steady_log(2.0);
}

/* Returns whether |x| is a power of two, and its exponent. */
static bool is_two(double x, int *exponent)
{
    bool is = isfinite(x) && fabs(frexp(x, exponent)) == 0.5;

    *exponent -= 1;
    return is;
}

static bool is_odd(double y)
{
    return fabs(y) < 0x1p53 && fmod(y, 2.0) != 0.0;
}

/* Returns |x|^y for x that is neither 0 nor infinite, and an infinite or large or fractional y. */
static double power_of_magnitude(double x, double y)
{
    double m = fabs(x);

    if (m == 1.0) {
        return 1.0;
    }
    if (isinf(y)) {
        return (m > 1.0) == (y > 0) ? HUGE_VAL : 0.0;
    }
    return y == 0.5 ? sqrt(m) : wide_exp(y * wide_log(m));
}

double ps_same_pow(double x, double y)
{
    bool is_whole = y == floor(y); /* true for infinities too */
    int exponent = 0;
    double m;

    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (isnan(x) || isnan(y) || (x < 0 && isfinite(x) && !is_whole)) {
        return (double)NAN;
    }
    if (is_whole && fabs(y) <= WHOLE_MAX && !is_two(x, &exponent)) {
        m = whole_power(x, (unsigned)fabs(y));
        return y > 0 ? m : isinf(m) ? whole_power(1.0 / x, (unsigned)-y) : 1.0 / m;
    }
    if (is_whole && fabs(y) <= TWOS_MAX && is_two(x, &exponent)) {
        m = ldexp(1.0, exponent * (int)y);
    } else if (x == 0.0 || isinf(x)) {
        m = (x == 0.0) == (y > 0) ? 0.0 : HUGE_VAL;
    } else {
        m = power_of_magnitude(x, y);
    }
    return signbit(x) && is_whole && is_odd(y) ? -m : m;
}

double ps_same_tan(double x)
{
    /* pi / 2 in two parts; the first times a whole number below 2^20 is exact */
    static const double high = 0x1.921fb544p0, low = 0x1.0b4611a626331p-34;
    double k = floor(x / high + 0.5), r = (x - k * high) - k * low, r2 = r * r; /* |r| < 0.8 */
    double sine = 1.0, cosine = 1.0;

    for (int i = 21; i >= 3; i -= 2) { /* the next term would be below 2^-70 */
        sine = 1.0 - sine * r2 / (i * (i - 1));
        cosine = 1.0 - cosine * r2 / ((i - 1) * (i - 2));
    }
    sine *= r;
    return is_odd(k) ? -cosine / sine : sine / cosine;
}

double pow(double x, double y)
{
    return ps_same_pow(x, y);
}

time_t time(time_t *out)
{
    if (out != NULL) {
        *out = 0;
    }
    return 0;
}

clock_t clock(void)
{
    return 0;
}
