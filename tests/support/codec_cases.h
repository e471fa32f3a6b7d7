/* SPDX-License-Identifier: Apache-2.0 */
/* codec_cases.h - every codec with many numbers, and values to go through them. For
 * tests, on their thread: what should not fail is asserted. */
#ifndef PS_TESTS_SUPPORT_CODEC_CASES_H
#define PS_TESTS_SUPPORT_CODEC_CASES_H

#include "common/codec/codec.h"

enum { N = 1000 }; /* values of most tests */

typedef void codec_case(const ps_codec *c, const ps_params *params);

/* Each codec of the list with the defaults, with each parameter at its least and its
 * most (all values of those that have few), and with rows of 7. */
void codec_each_case(codec_case *fn);

/* Magnitudes over many powers of two, all normal in binary16; normal ones; two
 * values; few that are not 0. */
void codec_fill(float *x, size_t n);
void codec_fill_normal(float *x, size_t n);
void codec_fill_equal(float *x, size_t n);
void codec_fill_few(float *x, size_t n);

/* Its bytes as slice 3, in memory of exactly the size they may have; the caller's. */
uint8_t *codec_encoded(const ps_codec *c, const ps_params *params, uint64_t key, const float *x,
                       size_t n, ps_encoding *head);
void codec_decoded(const ps_codec *c, const ps_encoding *head, const uint8_t *in, ps_into into,
                   float *y, size_t n);

#endif
