/* SPDX-License-Identifier: Apache-2.0 */
/* bitpack.c - see bitpack.h. Eight codes at a time lie in one or two 64-bit words. Neighbours are
 * joined in pairs, then pairs of pairs. */
#include "common/codec/bitpack.h"

#include <string.h>

/* Returns copies of `m` in each field of 16 bits. */
static uint64_t each16(uint64_t m)
{
    return m * UINT64_C(0x0001000100010001);
}

/* Returns copies of `m` in each field of 32 bits. */
static uint64_t each32(uint64_t m)
{
    return m * UINT64_C(0x0000000100000001);
}

/* Joins two fields of 32 bits, with `used` bits each, at the low end. */
static uint64_t join32(uint64_t x, unsigned used)
{
    return (x & UINT64_C(0xffffffff)) | (x >> 32) << used;
}

/* Undoes join32. */
static uint64_t part32(uint64_t x, unsigned used)
{
    uint64_t mask = (UINT64_C(1) << used) - 1;

    return (x & mask) | (x >> used & mask) << 32;
}

/* Joins the two fields of 16 bits in each 32. */
static uint64_t join16(uint64_t x, unsigned used)
{
    return (x & each32(0xffff)) | (x >> 16 & each32(0xffff)) << used;
}

/* Undoes join16. */
static uint64_t part16(uint64_t x, unsigned used)
{
    uint64_t mask = each32((UINT64_C(1) << used) - 1);

    return (x & mask) | (x >> used & mask) << 16;
}

/* Joins the two fields of 8 bits in each 16. */
static uint64_t join8(uint64_t x, unsigned used)
{
    return (x & each16(0xff)) | (x >> 8 & each16(0xff)) << used;
}

/* Undoes join8. */
static uint64_t part8(uint64_t x, unsigned used)
{
    uint64_t mask = each16((UINT64_C(1) << used) - 1);

    return (x & mask) | (x >> used & mask) << 8;
}

static uint64_t squeeze8(uint64_t x, unsigned bits)
{
    return join32(join16(join8(x, bits), 2 * bits), 4 * bits);
}

static uint64_t spread8(uint64_t x, unsigned bits)
{
    return part8(part16(part32(x, 4 * bits), 2 * bits), bits);
}

/* Moves whole words while there is room, because copies of a constant length are fast. Bytes
 * written beyond a group are overwritten by the next group. */
void ps_pack8(const uint8_t *codes, size_t n, unsigned bits, uint8_t *out)
{
    size_t bytes = ps_pack_bytes(n, bits), at = 0, i = 0;
    uint64_t x;

    for (; i + 8 <= n && at + sizeof x <= bytes; i += 8, at += bits) {
        memcpy(&x, codes + i, sizeof x);
        x = squeeze8(x, bits);
        memcpy(out + at, &x, sizeof x);
    }
    for (; i < n; i += 8, at += bits) {
        x = 0;
        memcpy(&x, codes + i, n - i < 8 ? n - i : 8);
        x = squeeze8(x, bits);
        memcpy(out + at, &x, bytes - at < 8 ? bytes - at : 8);
    }
}

void ps_unpack8(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes)
{
    size_t bytes = ps_pack_bytes(n, bits), at = 0, i = 0;
    uint64_t x;

    for (; i + 8 <= n && at + sizeof x <= bytes; i += 8, at += bits) {
        memcpy(&x, in + at, sizeof x);
        x = spread8(x, bits);
        memcpy(codes + i, &x, sizeof x);
    }
    for (; i < n; i += 8, at += bits) {
        x = 0;
        memcpy(&x, in + at, bytes - at < 8 ? bytes - at : 8);
        x = spread8(x, bits);
        memcpy(codes + i, &x, n - i < 8 ? n - i : 8);
    }
}

/* Turns eight codes of 16 bits in two words into 8 * bits bits. */
static void squeeze16(uint64_t *x, unsigned bits)
{
    unsigned half = 4 * bits;

    x[0] = join32(join16(x[0], bits), 2 * bits);
    x[1] = join32(join16(x[1], bits), 2 * bits);
    if (half < 64) {
        x[0] |= x[1] << half;
        x[1] >>= 64 - half;
    }
}

/* Undoes squeeze16. */
static void spread16(uint64_t *x, unsigned bits)
{
    unsigned half = 4 * bits;

    if (half < 64) {
        x[1] = x[1] << (64 - half) | x[0] >> half;
    }
    x[0] = part16(part32(x[0], 2 * bits), bits);
    x[1] = part16(part32(x[1], 2 * bits), bits);
}

void ps_pack16(const uint16_t *codes, size_t n, unsigned bits, uint8_t *out)
{
    size_t bytes = ps_pack_bytes(n, bits), at = 0, i = 0;
    uint64_t x[2];

    if (bits == 0) {
        return;
    }
    for (; i + 8 <= n && at + sizeof x <= bytes; i += 8, at += bits) {
        memcpy(x, codes + i, sizeof x);
        squeeze16(x, bits);
        memcpy(out + at, x, sizeof x);
    }
    for (; i < n; i += 8, at += bits) {
        memset(x, 0, sizeof x);
        memcpy(x, codes + i, n - i < 8 ? (n - i) * sizeof *codes : sizeof x);
        squeeze16(x, bits);
        memcpy(out + at, x, bytes - at < sizeof x ? bytes - at : sizeof x);
    }
}

void ps_unpack16(const uint8_t *in, size_t n, unsigned bits, uint16_t *codes)
{
    size_t bytes = ps_pack_bytes(n, bits), at = 0, i = 0;
    uint64_t x[2];

    if (bits == 0) {
        memset(codes, 0, n * sizeof *codes);
        return;
    }
    for (; i + 8 <= n && at + sizeof x <= bytes; i += 8, at += bits) {
        memcpy(x, in + at, sizeof x);
        spread16(x, bits);
        memcpy(codes + i, x, sizeof x);
    }
    for (; i < n; i += 8, at += bits) {
        memset(x, 0, sizeof x);
        memcpy(x, in + at, bytes - at < sizeof x ? bytes - at : sizeof x);
        spread16(x, bits);
        memcpy(codes + i, x, n - i < 8 ? (n - i) * sizeof *codes : sizeof x);
    }
}
