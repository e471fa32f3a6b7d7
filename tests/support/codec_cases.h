/* SPDX-License-Identifier: Apache-2.0 */
/* codec_cases.h - every codec with many choices of its numbers, and values to encode, for tests.
 * The functions assert what must not fail, so call them on the test's thread. */
#ifndef PS_TESTS_SUPPORT_CODEC_CASES_H
#define PS_TESTS_SUPPORT_CODEC_CASES_H

#include "common/codec/codec.h"

enum { N = 1000 }; /* number of values in most tests */

typedef void codec_case(const ps_codec *c, const ps_params *params);

/* Calls fn for each codec of the list: with the defaults; with each number at its least and at its
 * greatest value, the others at their defaults (of a number with few values, with each of them);
 * and with rows of 7 values (PS_WRAP_ROWS). */
void codec_each_case(codec_case *fn);

/* Fills x (n) with values of both signs whose magnitudes span many powers of two, 2^-13 to 2^15, so
 * all are normal numbers in binary16. */
void codec_fill(float *x, size_t n);
/* Fills x (n) with draws of the normal distribution; those below 2^-14 in magnitude become 0. */
void codec_fill_normal(float *x, size_t n);
/* Fills x (n) with -0.125 and 0.125. */
void codec_fill_equal(float *x, size_t n);
/* Fills x (n) with zeros, except for every 97th value, which is 1 to 2. */
void codec_fill_few(float *x, size_t n);

/* Encodes x (n) as slice 3 and returns the bytes, which the caller frees. The memory has exactly
 * the codec's largest size, so that AddressSanitizer sees a write behind it. */
uint8_t *codec_encoded(const ps_codec *c, const ps_params *params, uint64_t key, const float *x,
                       size_t n, ps_encoding *head);
/* Decodes bytes of codec_encoded into y (n). Fails the test if that fails. */
void codec_decoded(const ps_codec *c, const ps_encoding *head, const uint8_t *in, ps_into into,
                   float *y, size_t n);

#endif
