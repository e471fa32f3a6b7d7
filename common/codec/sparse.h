/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h - k of the n values of a slice, with their positions: what topk, dgc
 * and threshold share; rows (stages.h) have positions too. Private to common/codec and
 * its tests.
 *
 * The bytes: the positions, ascending, then the values as binary32. Positions are
 * nothing when k is 0 or n; else either packed with as many bits as n - 1 has
 * (pack.h), or a bitmap (bit i % 8 of byte i / 8), whichever is shorter, packed
 * if both are.
 */
#ifndef PS_COMMON_CODEC_SPARSE_H
#define PS_COMMON_CODEC_SPARSE_H

#include "common/codec/codec.h"

#include <stdbool.h>

/* Positions alone: k ascending ones below n <= 65536, k <= n. */
size_t ps_positions_bytes(size_t n, size_t k);
size_t ps_positions_write(const uint16_t *positions, size_t n, size_t k, uint8_t *out);
/* Whether they are that. Reads ps_positions_bytes(n, k); positions: (n), scratch
 * behind the first k. */
bool ps_positions_read(const uint8_t *in, size_t n, size_t k, uint16_t *positions);

/* Bytes of k values of n, k <= n. */
size_t ps_sparse_bytes(size_t n, size_t k);

/* The most bytes of any count up to k. */
size_t ps_sparse_most(size_t n, size_t k);

/* positions: (k), ascending, below n. Returns ps_sparse_bytes(n, k). */
size_t ps_sparse_write(const float *x, size_t n, const uint16_t *positions, size_t k, uint8_t *out);

/* `name` is the codec's, for the reason. DATA_LOSS if k is above n, len is not
 * ps_sparse_bytes(n, k), or the positions are not k ascending ones below n.
 * positions: room for n of them, or NULL. */
PS_MUST_USE ps_status ps_sparse_check(const char *name, uint32_t slice, const uint8_t *in,
                                      size_t len, size_t n, size_t k, uint16_t *positions);

/* As ps_codec's decode. */
PS_MUST_USE ps_status ps_sparse_decode(const char *name, uint32_t slice, const uint8_t *in,
                                       size_t len, size_t n, size_t k, ps_into into, float *y);

#endif
