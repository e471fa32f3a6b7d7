/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - whose encoding a codec's state has seen last. Private to common/codec. */
#ifndef PS_COMMON_CODEC_STATE_H
#define PS_COMMON_CODEC_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PS_STATE_TAG = 2 }; /* floats before what the codec keeps */

/* Whether the key is another than the last one; remembers it. */
static inline bool ps_state_is_new(float *state, uint64_t key)
{
    uint64_t last;

    key = ~key; /* zeros stand for none */
    memcpy(&last, state, sizeof last);
    memcpy(state, &key, sizeof key);
    return last != key;
}

#endif
