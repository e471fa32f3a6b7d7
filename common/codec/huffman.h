/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.h - small numbers with codes as long as they are rare (Huffman 1952), the
 * lengths fitted to the numbers at hand and sent with them. Private to common/codec
 * and its tests.
 *
 * The bytes: the length of each symbol's code, 4 bits each, lowest first, 0 for a
 * symbol that does not occur; then the codes, lowest bit first. The codes are
 * canonical: ascending by length, then by symbol, and each is written from its
 * highest bit on. A lone symbol has length 1 and no codes are written.
 */
#ifndef PS_COMMON_CODEC_HUFFMAN_H
#define PS_COMMON_CODEC_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_HUFFMAN_SYMBOLS = 255, /* most; so 0..254 */
    PS_HUFFMAN_BITS = 11      /* longest code */
};

/* codes: (n), n > 0, each below `symbols`. Returns the bytes written, or 0 when they
 * would be `room` or more (then out[0..room) is scratch). */
size_t ps_huffman_write(const uint8_t *codes, size_t n, unsigned symbols, uint8_t *out,
                        size_t room);

/* Reads exactly n numbers from in[0..len); false when that is not what the bytes
 * are, whatever they are. codes: (n), scratch then. */
bool ps_huffman_read(const uint8_t *in, size_t len, unsigned symbols, uint8_t *codes, size_t n);

#endif
