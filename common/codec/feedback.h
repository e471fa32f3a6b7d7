/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.h - error feedback around any codec: what an encoding left out is added
 * to the values of the next one.
 *
 * With p the values and e what was lost (zeros at first), send C(p + e), and e
 * becomes p + e - C(p + e): over time all of every p is sent (Seide et al. 2014;
 * Karimireddy et al. 2019). The state is one float a value, the caller's, one run
 * for each slice. A job asks for it with error_feedback (wrap.h).
 */
#ifndef PS_COMMON_CODEC_FEEDBACK_H
#define PS_COMMON_CODEC_FEEDBACK_H

#include "common/codec/codec.h"

#include <stdbool.h>

/* False for a codec that loses nothing. */
bool ps_feedback_is_on(const ps_codec *codec, const ps_params *params);

/* x += lost, once for each contribution, before it is encoded. */
void ps_feedback_carry(float *x, const float *lost, size_t n);

/* lost = x - what decoding gives; 0 where that is no finite number. `head` and
 * `in` are what the codec made of x; again with the same ones changes nothing. */
void ps_feedback_keep(const Psgd__V1__Encoding *head, const uint8_t *in, const float *x,
                      float *lost, size_t n);

#endif
