/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.c - see feedback.h. */
#include "common/codec/feedback.h"

#include "common/codec/wrap.h"

#include <assert.h>
#include <math.h>

bool ps_feedback_is_on(const ps_codec *codec, const ps_params *params)
{
    return !codec->is_identity && ps_wrap_of(codec, params, PS_WRAP_FEEDBACK) != 0;
}

void ps_feedback_carry(float *x, const float *lost, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] += lost[i];
    }
}

void ps_feedback_keep(const Psgd__V1__Encoding *head, const uint8_t *in, const float *x,
                      float *lost, size_t n)
{
    ps_status st = ps_codec_decode(NULL, head, in, head->payload_bytes, PS_INTO_SET, lost, n);

    assert(ps_is_ok(&st)); /* it was encoded here */
    for (size_t i = 0; i < n; i++) {
        float left = x[i] - lost[i];

        lost[i] = isfinite(left) ? left : 0.0f;
    }
}
