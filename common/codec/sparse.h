/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h - k of the n values of a slice with their positions: for topk, dgc and threshold.
 * Rows (stages.h) use positions too. For codecs, built-in and of jobs.
 *
 * The bytes: the positions, ascending, then the values as binary32. There are no bytes of
 * positions if k is 0 or n. Else positions are packed with the bits of n - 1 (bitpack.h), or a
 * bitmap (bit i % 8 of byte i / 8), whichever is shorter; packed if both are equal.
 */
#ifndef PS_COMMON_CODEC_SPARSE_H
#define PS_COMMON_CODEC_SPARSE_H

#include "common/codec/codec_type.h"

#include <stdbool.h>

/* Returns the bytes of k ascending positions below n <= 65536, k <= n. */
size_t ps_positions_bytes(size_t n, size_t k);
/* Writes k ascending positions below n. Returns ps_positions_bytes(n, k). */
size_t ps_positions_write(const uint16_t *positions, size_t n, size_t k, uint8_t *out);
/* Reads k positions from ps_positions_bytes(n, k) bytes to positions (n). Returns false if they
 * are not ascending and below n. The elements behind the first k are undefined. */
bool ps_positions_read(const uint8_t *in, size_t n, size_t k, uint16_t *positions);

/* Returns the bytes of k of n values with their positions, k <= n. */
size_t ps_sparse_bytes(size_t n, size_t k);

/* Returns the maximum of ps_sparse_bytes(n, i) for i up to k. */
size_t ps_sparse_most(size_t n, size_t k);

/* Writes the values at positions (k), ascending, below n. Returns ps_sparse_bytes(n, k). */
size_t ps_sparse_write(const float *x, size_t n, const uint16_t *positions, size_t k, uint8_t *out);

/* Checks k of n values with positions. Returns DATA_LOSS if k > n, len is not
 * ps_sparse_bytes(n, k), or the positions are not k ascending ones below n. `name` is the
 * codec's, for the text. positions: room for n of them, or NULL. */
PS_MUST_USE ps_status ps_sparse_check(const char *name, uint32_t slice, const uint8_t *in,
                                      size_t len, size_t n, size_t k, uint16_t *positions);

/* Returns what ps_codec.first_nonfinite returns for k of n values that ps_sparse_check has
 * accepted. Reads the values that are sent, and positions only to name one of them. */
size_t ps_sparse_first_nonfinite(const uint8_t *in, size_t n, size_t k);

/* Decodes k of n values like ps_codec.decode. */
PS_MUST_USE ps_status ps_sparse_decode(const char *name, uint32_t slice, const uint8_t *in,
                                       size_t len, size_t n, size_t k, ps_into into, float *y);

#endif
