/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.h - what the sender of a slice keeps from one contribution to the next,
 * around any codec C.
 *
 * error_feedback  what an encoding left out is added to the values of the next: with
 *                 p the values and e what was lost (zeros at first), send C(p + e), and
 *                 e becomes p + e - C(p + e), so that over time all of every p is sent
 *                 (Seide et al. 2014; Karimireddy et al. 2019).
 * difference      what is sent is the change: with h what the receiver has (zeros at
 *                 first), send C(p - h), and h becomes h + C(p - h), there as here
 *                 (EF21, Richtarik et al. 2021). The receiver steps on the standing sum
 *                 of all that was ever sent. Not together with error_feedback.
 * lazy            with difference: nothing is sent, and h stays, while
 *                 |p - h|^2 < lazy |p|^2, at most PS_FEEDBACK_SKIPS times in a row (after
 *                 LAG and LAQ, Chen et al. 2018, Sun et al. 2019; their threshold is of
 *                 the last steps of the weights, which are the mean gradient times the
 *                 rate; here the sender's own p stands for that).
 * momentum        u = momentum u + p takes the place of p before all of this (zeros at
 *                 first); with a codec that leaves values out, u is 0 where a value was
 *                 sent (momentum correction and factor masking of DGC, Lin et al. 2018).
 *
 * And the codec's own state, where it has one. All of it is the caller's memory, zeros
 * at first, one run of floats for each slice.
 */
#ifndef PS_COMMON_CODEC_FEEDBACK_H
#define PS_COMMON_CODEC_FEEDBACK_H

#include "common/codec/codec.h"

#include <stdbool.h>

enum { PS_FEEDBACK_SKIPS = 10 };

/* Which of them params ask for. error_feedback is off for a codec that loses nothing. */
bool ps_feedback_is_on(const ps_codec *codec, const ps_params *params);
bool ps_feedback_differs(const ps_codec *codec, const ps_params *params);
bool ps_feedback_has_momentum(const ps_codec *codec, const ps_params *params);

/* Floats of a slice of n values; 0: nothing is kept, and state may be NULL below. */
size_t ps_feedback_floats(const ps_codec *codec, const ps_params *params, size_t n);

/* x becomes what is to be encoded; once for each contribution, before that. What is
 * not a finite number is not kept. */
void ps_feedback_carry(const ps_codec *codec, const ps_params *params, float *state, float *x,
                       size_t n);

/* ps_codec_encode of what carry left in x, remembering what was sent. Again with the
 * same key and values it gives the same bytes and changes nothing. */
size_t ps_feedback_encode(const ps_codec *codec, const ps_params *params, float *state,
                          uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                          ps_encoding *head);

/* For who encodes by other means: of what carry left in x the receiver has y. Once a
 * contribution. */
void ps_feedback_keep(const ps_codec *codec, const ps_params *params, float *state, const float *x,
                      const float *y, size_t n);

#endif
