/* SPDX-License-Identifier: Apache-2.0 */
/* codec_state.h - tells a new encoding from a repetition, for codecs with state. Private to
 * common/codec. */
#ifndef PS_COMMON_CODEC_CODEC_STATE_H
#define PS_COMMON_CODEC_CODEC_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PS_STATE_TAG = 2 }; /* floats in front of the codec's own state */

/* Returns whether `key` differs from the key of the last call with this state. If not, the encoding
 * is a repetition. Stores `key` in the tag, the first PS_STATE_TAG floats of `state`. */
static inline bool ps_state_is_new(float *state, uint64_t key)
{
    uint64_t last;

    key = ~key; /* so that a state of zeros means no key */
    memcpy(&last, state, sizeof last);
    memcpy(state, &key, sizeof key);
    return last != key;
}

#endif
