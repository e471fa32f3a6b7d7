/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.h - the state that the sender of a slice keeps between contributions, around any
 * codec C.
 *
 * error_feedback: the part of the values that an encoding lost is added to the next values.
 * With p the values and e the lost part (zeros at first), send C(p + e); e becomes p + e - C(p
 * + e). Over time all of every p is sent (Seide et al. 2014; Karimireddy et al. 2019).
 *
 * difference: the change is sent. With h what the receiver has (zeros at first), send C(p - h);
 * h becomes h + C(p - h) on both sides (EF21, Richtarik et al. 2021). The receiver steps on the
 * sum of everything sent so far. Not together with error_feedback.
 *
 * lazy: with difference, nothing is sent and h stays while |p - h|^2 < lazy |p|^2, at most
 * PS_FEEDBACK_SKIPS times in a row (after LAG and LAQ, Chen et al. 2018, Sun et al. 2019).
 * Their threshold uses the last steps of the weights, which are the mean gradient times the
 * rate; here the sender's own p replaces it.
 *
 * momentum: u = momentum u + p (zeros at first) replaces p before all of this. With a codec
 * that leaves values out, u becomes 0 where a value was sent (momentum correction and factor
 * masking of DGC, Lin et al. 2018).
 *
 * The codec's own state, if it has any, is a part of the same array. The caller owns the memory:
 * one array of floats per slice, zeros at first.
 */
#ifndef PS_COMMON_CODEC_FEEDBACK_H
#define PS_COMMON_CODEC_FEEDBACK_H

#include "common/codec/codec.h"

#include <stdbool.h>

enum { PS_FEEDBACK_SKIPS = 10 };

/* Returns whether the number error_feedback is on; false for a codec that loses nothing. */
bool ps_feedback_is_on(const ps_codec *codec, const ps_params *params);
/* Returns whether the number difference is on. */
bool ps_feedback_differs(const ps_codec *codec, const ps_params *params);
/* Returns whether the number momentum is not 0. */
bool ps_feedback_has_momentum(const ps_codec *codec, const ps_params *params);

/* Returns whether ps_feedback_encode decodes what it has encoded, to know what was sent. */
bool ps_feedback_decodes(const ps_codec *codec, const ps_params *params);

/* Returns the floats of state for a slice of n values. 0: there is no state, and `state` may be
 * NULL below. */
size_t ps_feedback_floats(const ps_codec *codec, const ps_params *params, size_t n);

/* Turns the values x of a contribution into the values to encode. Call it once per
 * contribution, before ps_feedback_encode. Non-finite values do not enter the state. */
void ps_feedback_carry(const ps_codec *codec, const ps_params *params, float *state, float *x,
                       size_t n);

/* Encodes x, which ps_feedback_carry has prepared, like ps_codec_encode, and records what was
 * sent. The encoding may be one of topk in place of a script's (ps_codec_replace_few). A repetition
 * with the same key and values gives the same bytes and does not change the state. */
size_t ps_feedback_encode(const ps_codec *codec, const ps_params *params, float *state,
                          uint64_t key, uint32_t slice, const float *x, size_t n, uint8_t *out,
                          ps_encoding *head);

/* Both for a sender whose codec reads a copy of the values. ps_feedback_carry_apart does what
 * ps_feedback_carry does, copies the result to y (n), and with error_feedback notes all of it as
 * lost in the same pass. ps_feedback_encode_apart does what ps_feedback_encode does, for values
 * that ps_feedback_carry_apart has prepared. `state` is not NULL. */
void ps_feedback_carry_apart(const ps_codec *codec, const ps_params *params, float *state, float *x,
                             float *y, size_t n);
size_t ps_feedback_encode_apart(const ps_codec *codec, const ps_params *params, float *state,
                                uint64_t key, uint32_t slice, const float *x, size_t n,
                                uint8_t *out, ps_encoding *head);

/* For senders that encode by other means, without the number difference: records that the receiver
 * decodes y where x was sent, which ps_feedback_carry has prepared. Call it once per contribution.
 */
void ps_feedback_keep(const ps_codec *codec, const ps_params *params, float *state, const float *x,
                      const float *y, size_t n);

#endif
