/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.c - computes four bits at a time, so that the table is short. */
#include "common/artifact/crc32c.h"

/* table[i] is i after four steps of (i & 1) ? (i >> 1) ^ 0x82f63b78 : i >> 1. */
static const uint32_t table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t ps_crc32c(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint32_t c = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    return ~c;
}
