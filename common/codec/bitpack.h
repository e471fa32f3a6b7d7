/* SPDX-License-Identifier: Apache-2.0 */
/* bitpack.h - small numbers packed side by side, lowest bit first: number i takes the bits i *
 * bits to (i + 1) * bits - 1. Bits behind the last number are 0. For codecs, built-in and of jobs.
 */
#ifndef PS_COMMON_CODEC_BITPACK_H
#define PS_COMMON_CODEC_BITPACK_H

#include <stddef.h>
#include <stdint.h>

/* Returns the bytes of n numbers of `bits` bits. */
static inline size_t ps_pack_bytes(size_t n, unsigned bits)
{
    return (n * bits + 7) / 8;
}

/* Packs codes below 2^bits, bits 1 to 8, into ps_pack_bytes(n, bits) bytes. */
void ps_pack8(const uint8_t *codes, size_t n, unsigned bits, uint8_t *out);
/* Packs codes below 2^bits, bits 0 to 16, into ps_pack_bytes(n, bits) bytes. */
void ps_pack16(const uint16_t *codes, size_t n, unsigned bits, uint8_t *out);

/* Unpacks ps_pack_bytes(n, bits) bytes, bits 1 to 8. */
void ps_unpack8(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes);
/* Unpacks ps_pack_bytes(n, bits) bytes, bits 0 to 16. */
void ps_unpack16(const uint8_t *in, size_t n, unsigned bits, uint16_t *codes);

#endif
