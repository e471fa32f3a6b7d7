/* SPDX-License-Identifier: Apache-2.0 */
/* table_keys.h - a worker's side of a sparse table: each key once, and what
 * belongs to it. Pure; any thread. Letters: n occurrences, C different keys, D width. */
#ifndef PS_COMMON_STORE_TABLE_KEYS_H
#define PS_COMMON_STORE_TABLE_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* The different ones of keys (n), ascending, into unique (n at most); place[i] is
 * where keys[i] is in it. n < 2^32. Returns C. */
size_t ps_keys_unique(const uint64_t *keys, size_t n, uint64_t *unique, uint32_t *place);

/* Gradients of occurrences (n, D) to those of keys (C, D): sums in the order of
 * occurrences, so that they are the same bits whoever forms them. */
void ps_rows_merge(const float *rows, const uint32_t *place, size_t n, size_t width, size_t count,
                   float *merged);

#endif
