/* SPDX-License-Identifier: Apache-2.0 */
/* steady.h - mathematical functions that give the same bits on every host.
 *
 * libm may differ between versions and processors. These functions consist of sums, products,
 * quotients and exact operations only, so two nodes get the same number. Their relative error is of
 * the order of 2^-52; that of ps_steady_pow grows with |y ln x|, and the error of ps_steady_cos_pi
 * is absolute. They are slower than libm's and meant for few values.
 */
#ifndef PS_COMMON_BASE_STEADY_H
#define PS_COMMON_BASE_STEADY_H

/* Returns the natural logarithm of x, which is normal and positive. */
double ps_steady_log(double x);

/* Returns e^x for x <= 700; 0 below -700. */
double ps_steady_exp(double x);

/* Returns x^y. x is normal and positive, or 0 with y > 0; y ln x is at most 700. */
double ps_steady_pow(double x, double y);

/* Returns cos(pi x) for x in [0, 1]. */
double ps_steady_cos_pi(double x);

#endif
