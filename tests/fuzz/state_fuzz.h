/* SPDX-License-Identifier: Apache-2.0 */
/* state_fuzz.h - files of common/base/state.h with bytes that are others, under checksums that are
 * right: for the fuzzers of their readers. */
#ifndef PS_TESTS_FUZZ_STATE_FUZZ_H
#define PS_TESTS_FUZZ_STATE_FUZZ_H

#include "common/base/state.h"

#include <string.h>
#include <xxhash.h>

/* Makes the checksums right again, as far as the sections can be followed. */
static inline void state_fuzz_mend(uint8_t *bytes, size_t len)
{
    size_t at = PS_STATE_HEAD_BYTES;

    while (len - at >= PS_STATE_SECTION_BYTES) {
        uint64_t payload, sum;

        memcpy(&payload, bytes + at + 8, sizeof payload);
        if (payload > len - at - PS_STATE_SECTION_BYTES) {
            return;
        }
        sum = XXH3_64bits(bytes + at, 16 + (size_t)payload);
        memcpy(bytes + at + 16 + payload, &sum, sizeof sum);
        at += PS_STATE_SECTION_BYTES + (size_t)payload;
    }
}

/* Changes a file: each three bytes of the input are a place in the file and what stands there. */
static inline void state_fuzz_change(uint8_t *bytes, size_t len, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 2 < size; i += 3) {
        bytes[(data[i] | (size_t)data[i + 1] << 8) % len] = data[i + 2];
    }
    state_fuzz_mend(bytes, len);
}

#endif
