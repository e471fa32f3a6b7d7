/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - see draw.h.
 *
 * Floating point here is sums, products, quotients and square roots only, which IEEE 754 rounds in
 * one way. libm's log may round differently on a processor with fused multiply-add, and all hosts
 * of a job must draw the same weights.
 */
#include "common/base/draw.h"

#include "common/base/steady.h"

#include <assert.h>
#include <math.h>

__extension__ typedef unsigned __int128 wide;

/* Mixes the bits of `z`: SplitMix64's finaliser (variant 13 of Stafford's). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns the key made of `key` and `part`. Without the added golden ratio, 0 would be a fixed
 * point of the chain. */
static uint64_t chain(uint64_t key, uint64_t part)
{
    return mix((key ^ part) + UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t ps_draw_key(uint64_t seed, ps_purpose purpose, uint64_t a, uint64_t b, uint64_t c)
{
    return chain(chain(chain(chain(mix(seed), (uint64_t)purpose), a), b), c);
}

double ps_draw_unit(uint64_t key, uint64_t index)
{
    return (double)(ps_draw_u64(key, index) >> 11) * 0x1p-53;
}

uint64_t ps_draw_below(uint64_t key, uint64_t index, uint64_t n)
{
    assert(n > 0);
    return (uint64_t)(((wide)ps_draw_u64(key, index) * n) >> 64);
}

/* Returns p(x) / q(x). Both have 8 coefficients, highest power first. */
static double ratio(const double *p, const double *q, double x)
{
    double up = p[0], down = q[0];

    for (int i = 1; i < 8; i++) {
        up = up * x + p[i];
        down = down * x + q[i];
    }
    return up / down;
}

/* Returns the inverse of the normal distribution function at p: Wichura's PPND16, Applied
 * Statistics 37 (1988), algorithm AS 241; relative error about 1e-16. */
static double normal_of_unit(double p)
{
    static const double centre_up[8] = {2.5090809287301226727e3, 3.3430575583588128105e4,
                                        6.7265770927008700853e4, 4.5921953931549871457e4,
                                        1.3731693765509461125e4, 1.9715909503065514427e3,
                                        1.3314166789178437745e2, 3.3871328727963666080e0};
    static const double centre_down[8] = {5.2264952788528545610e3, 2.8729085735721942674e4,
                                          3.9307895800092710610e4, 2.1213794301586595867e4,
                                          5.3941960214247511077e3, 6.8718700749205790830e2,
                                          4.2313330701600911252e1, 1.0};
    static const double side_up[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                      2.41780725177450611770e-1, 1.27045825245236838258e0,
                                      3.64784832476320460504e0,  5.76949722146069140550e0,
                                      4.63033784615654529590e0,  1.42343711074968357734e0};
    static const double side_down[8] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                        1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                        6.89767334985100004550e-1, 1.67638483018380384940e0,
                                        2.05319162663775882187e0,  1.0};
    static const double tail_up[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                      1.24266094738807843860e-3, 2.65321895265761230930e-2,
                                      2.96560571828504891230e-1, 1.78482653991729133580e0,
                                      5.46378491116411436990e0,  6.65790464350110377720e0};
    static const double tail_down[8] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                        1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                        1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                        5.99832206555887937690e-1,  1.0};
    double q = p - 0.5, r, x;

    if (q >= -0.425 && q <= 0.425) {
        return q * ratio(centre_up, centre_down, 0.180625 - q * q);
    }
    r = sqrt(-ps_steady_log(q < 0 ? p : 1.0 - p));
    x = r <= 5.0 ? ratio(side_up, side_down, r - 1.6) : ratio(tail_up, tail_down, r - 5.0);
    return q < 0 ? -x : x;
}

double ps_draw_normal(uint64_t key, uint64_t index)
{
    /* Midpoints of 2^52 cells: never 0 or 1, and symmetric about one half. */
    return normal_of_unit(((double)(ps_draw_u64(key, index) >> 12) + 0.5) * 0x1p-52);
}

void ps_draw_permutation(uint64_t key, uint32_t *order, size_t n)
{
    assert(n <= UINT32_MAX);
    for (size_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
    }
    for (size_t i = n; i-- > 1;) {
        size_t j = (size_t)ps_draw_below(key, i, i + 1);
        uint32_t held = order[i];

        order[i] = order[j];
        order[j] = held;
    }
}
