/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - small numbers side by side, lowest bit first: number i takes bits
 * i * bits to (i + 1) * bits - 1 of the bytes; bits behind the last are 0.
 * Private to common/codec and its tests.
 */
#ifndef PS_COMMON_CODEC_PACK_H
#define PS_COMMON_CODEC_PACK_H

#include <stddef.h>
#include <stdint.h>

static inline size_t ps_pack_bytes(size_t n, unsigned bits)
{
    return (n * bits + 7) / 8;
}

/* Codes below 2^bits; bits 1 to 8, or 0 to 16. Writes ps_pack_bytes(n, bits). */
void ps_pack8(const uint8_t *codes, size_t n, unsigned bits, uint8_t *out);
void ps_pack16(const uint16_t *codes, size_t n, unsigned bits, uint8_t *out);

/* Reads ps_pack_bytes(n, bits). */
void ps_unpack8(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes);
void ps_unpack16(const uint8_t *in, size_t n, unsigned bits, uint16_t *codes);

#endif
