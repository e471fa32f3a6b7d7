/* SPDX-License-Identifier: Apache-2.0 */
/* table_keys.h - the distinct keys of a list in which keys may repeat, such as the ids of a batch.
 * Pure; any thread. Letters: n keys of the list, C distinct keys. */
#ifndef PS_COMMON_STORE_TABLE_KEYS_H
#define PS_COMMON_STORE_TABLE_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* Writes the distinct keys of keys (n) in ascending order to unique, which has room for n;
 * unique[place[i]] is keys[i]. n < 2^32. Returns C. */
size_t ps_keys_unique(const uint64_t *keys, size_t n, uint64_t *unique, uint32_t *place);

#endif
