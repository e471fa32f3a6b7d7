/* SPDX-License-Identifier: Apache-2.0 */
/* keymap.h - from 64-bit keys to places in an array: open addressing, linear
 * probing, at most half full. A zeroed map is an empty one. Private to tables. */
#ifndef PS_COMMON_STORE_KEYMAP_H
#define PS_COMMON_STORE_KEYMAP_H

#include <stddef.h>
#include <stdint.h>

enum { PS_KEYMAP_NONE = -1 };

typedef struct ps_keymap_entry {
    uint64_t key;
    uint64_t place; /* 1 + place; 0: free */
} ps_keymap_entry;

typedef struct ps_keymap {
    ps_keymap_entry *entries; /* (cap) */
    size_t cap;               /* 0 or a power of two */
    size_t count;
} ps_keymap;

void ps_keymap_fini(ps_keymap *map);
int64_t ps_keymap_find(const ps_keymap *map, uint64_t key); /* place or PS_KEYMAP_NONE */
/* Adds the key, or moves it to another place; place < 2^32. */
void ps_keymap_put(ps_keymap *map, uint64_t key, uint32_t place);
void ps_keymap_remove(ps_keymap *map, uint64_t key); /* one that is there */

/* The hash that maps and virtual shards share: its top bits choose the shard, its low
 * bits the entry. */
uint64_t ps_key_hash(uint64_t key);

#endif
