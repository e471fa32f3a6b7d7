/* SPDX-License-Identifier: Apache-2.0 */
/* same_libc.h - functions that Lua would take from libc, but whose results differ between
 * processors or processes.
 *
 * same_libc.c also defines pow, time and clock. The linker prefers a program's own functions to
 * those of libraries, so the Lua library calls these: for x ^ y, for the seed of its hashes, and
 * for the choice of a pivot in sorting. */
#ifndef PS_COMMON_SANDBOX_SAME_LIBC_H
#define PS_COMMON_SANDBOX_SAME_LIBC_H

/* Returns x^y with the same bits on every processor, with the special cases of C's pow. For whole y
 * within +-64 it multiplies, and powers of two are exact; else the relative error is of the order
 * of 2^-52 times the magnitude of the result's logarithm. */
double ps_same_pow(double x, double y);

/* Returns the tangent of x for |x| <= PS_TAN_MOST with the same bits on every processor. */
double ps_same_tan(double x);

enum { PS_TAN_MOST = 1000000 };

#endif
