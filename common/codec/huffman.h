/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.h - Huffman codes (Huffman 1952) for small numbers. The code lengths are fitted to
 * the numbers and sent with them. For codecs, built-in and of jobs.
 *
 * The bytes: the code length of each symbol, 4 bits each, lowest first, 0 for a symbol that
 * does not occur; then the codes, lowest bit first. The codes are canonical: ascending by
 * length, then by symbol. Each is written from its highest bit on. A single symbol has length
 * 1, and no codes are written.
 */
#ifndef PS_COMMON_CODEC_HUFFMAN_H
#define PS_COMMON_CODEC_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_HUFFMAN_SYMBOLS = 255, /* limit of the number of symbols, which are 0..254 */
    PS_HUFFMAN_BITS = 11      /* longest code */
};

/* Writes codes (n), n > 0, each below `symbols`. Returns the number of bytes, or 0 if it would
 * be `room` or more; out[0..room) is then undefined. */
size_t ps_huffman_write(const uint8_t *codes, size_t n, unsigned symbols, uint8_t *out,
                        size_t room);

/* Reads exactly n numbers from in[0..len) to codes (n). Returns false if the bytes are not of
 * that form; any bytes are safe, and `codes` is then undefined. */
bool ps_huffman_read(const uint8_t *in, size_t len, unsigned symbols, uint8_t *codes, size_t n);

#endif
