/* SPDX-License-Identifier: Apache-2.0 */
/* table_keys.h - the different keys among occurrences of keys, such as those of a batch. Pure; any
 * thread. Letters: n occurrences, C different keys. */
#ifndef PS_COMMON_STORE_TABLE_KEYS_H
#define PS_COMMON_STORE_TABLE_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* Writes the different keys of keys (n) in ascending order into unique (n); place[i] is the index
 * of keys[i] there. n < 2^32. Returns C. */
size_t ps_keys_unique(const uint64_t *keys, size_t n, uint64_t *unique, uint32_t *place);

#endif
