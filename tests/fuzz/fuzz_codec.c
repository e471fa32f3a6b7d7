/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_codec.c - any head and any bytes into every codec (libFuzzer).
 *
 * Input: a byte with the number of values, a byte with the length of the head (and
 * 128 if its payload_bytes is to stay as it is, not made true), the head as a
 * packed Encoding, the payload.
 */
#include "common/codec/codec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float y[255], before[255];
    Psgd__V1__Encoding *head;
    size_t n, head_len;
    uint8_t *bytes;

    if (size < 2 || size - 2 < (data[1] & 127u)) {
        return 0;
    }
    n = data[0];
    head_len = data[1] & 127u;
    head = psgd__v1__encoding__unpack(NULL, head_len, data + 2);
    if (head == NULL) {
        return 0;
    }
    size -= 2 + head_len;
    if (data[1] < 128) {
        head->payload_bytes = (uint32_t)size;
    }
    bytes = malloc(size + 1); /* exact but for empty ones */
    assert(bytes != NULL);
    memcpy(bytes, data + 2 + head_len, size);
    memset(y, 0, sizeof y);
    for (int into = PS_INTO_SET; into <= PS_INTO_ADD; into++) {
        ps_status checked = ps_codec_check(NULL, head, bytes, size, n), st;
        ps_encoding copy;

        memcpy(before, y, sizeof y);
        ps_encoding_copy(&copy, head);
        st = ps_codec_decode(NULL, &copy.msg, bytes, size, (ps_into)into, y, n);
        assert(st.code == checked.code);
        assert(ps_is_ok(&st) || memcmp(before, y, sizeof y) == 0);
    }
    free(bytes);
    psgd__v1__encoding__free_unpacked(head, NULL);
    return 0;
}
