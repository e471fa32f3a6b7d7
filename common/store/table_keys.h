/* SPDX-License-Identifier: Apache-2.0 */
/* table_keys.h - a worker's side of a sparse table: the different keys of a batch, and the sums
 * of their gradients. Pure; any thread. Letters: n occurrences, C different keys, D width. */
#ifndef PS_COMMON_STORE_TABLE_KEYS_H
#define PS_COMMON_STORE_TABLE_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* Writes the different keys of keys (n) in ascending order into unique (n); place[i] is the index
 * of keys[i] there. n < 2^32. Returns C. */
size_t ps_keys_unique(const uint64_t *keys, size_t n, uint64_t *unique, uint32_t *place);

/* Adds up the gradients of occurrences, rows (n, D), to those of keys, merged (C, D). Adds in the
 * order of occurrences, so that the bits are always the same. */
void ps_rows_merge(const float *rows, const uint32_t *place, size_t n, size_t width, size_t count,
                   float *merged);

#endif
