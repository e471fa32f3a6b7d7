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

/* x has two fields of 32 bits, of which only the lowest `used` bits are in use. Moves the upper
 * field down, to just above the used bits of the lower one. */
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

/* Does in each 32 bits of x what join32 does in 64, with two fields of 16 bits. */
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

/* Does in each 16 bits of x what join32 does in 64, with two fields of 8 bits. */
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

/* Converts n codes in groups of eight by `turn`: a group is in_step bytes of `in` (in_bytes) and
 * out_step bytes of `out` (out_bytes). Moves whole words while there is room, because copies of a
 * constant length are fast; bytes written beyond a group are overwritten by the next group. */
static inline __attribute__((always_inline)) void
turn8(const uint8_t *in, size_t in_bytes, unsigned in_step, uint8_t *out, size_t out_bytes,
      unsigned out_step, uint64_t (*turn)(uint64_t x, unsigned bits), unsigned bits)
{
    size_t from = 0, to = 0;
    uint64_t x;

    for (; in_bytes - from >= sizeof x && out_bytes - to >= sizeof x; from += in_step) {
        memcpy(&x, in + from, sizeof x);
        x = turn(x, bits);
        memcpy(out + to, &x, sizeof x);
        to += out_step;
    }
    for (; to < out_bytes; from += in_step, to += out_step) {
        size_t left = in_bytes - from, room = out_bytes - to;

        x = 0;
        memcpy(&x, in + from, left < sizeof x ? left : sizeof x);
        x = turn(x, bits);
        memcpy(out + to, &x, room < sizeof x ? room : sizeof x);
    }
}

void ps_pack8(const uint8_t *codes, size_t n, unsigned bits, uint8_t *out)
{
    turn8(codes, n, 8, out, ps_pack_bytes(n, bits), bits, squeeze8, bits);
}

void ps_unpack8(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes)
{
    turn8(in, ps_pack_bytes(n, bits), bits, codes, n, 8, spread8, bits);
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
