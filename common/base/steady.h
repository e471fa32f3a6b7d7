/* SPDX-License-Identifier: Apache-2.0 */
/* steady.h - functions of analysis that give the same bits on every host.
 *
 * libm's may differ from version to version and from processor to processor.
 * These are made of sums, products, quotients and exact operations only, so
 * that two nodes that compute one number have one number. Relative errors are
 * of the order of 2^-52; they are slower than libm's and meant for few values.
 */
#ifndef PS_COMMON_BASE_STEADY_H
#define PS_COMMON_BASE_STEADY_H

double ps_steady_log(double x);           /* natural; x normal and positive */
double ps_steady_exp(double x);           /* x <= 700; 0 below -700 */
double ps_steady_pow(double x, double y); /* x normal and positive, or 0 with y > 0 */
double ps_steady_cos_pi(double x);        /* cos(pi x), x in [0, 1] */

#endif
