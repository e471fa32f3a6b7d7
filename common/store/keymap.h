/* SPDX-License-Identifier: Apache-2.0 */
/* keymap.h - maps 64-bit keys to places in an array: open addressing, linear probing, at most half
 * full. A zeroed map is empty. Private to tables (table_impl.h). */
#ifndef PS_COMMON_STORE_KEYMAP_H
#define PS_COMMON_STORE_KEYMAP_H

#include <stddef.h>
#include <stdint.h>

enum { PS_KEYMAP_NONE = -1 };

typedef struct ps_keymap_entry {
    uint64_t key;
    uint64_t place; /* place + 1; 0: the entry is free */
} ps_keymap_entry;

typedef struct ps_keymap {
    ps_keymap_entry *entries; /* (cap) */
    size_t cap;               /* 0 or a power of two */
    size_t count;
} ps_keymap;

void ps_keymap_fini(ps_keymap *map);
/* Returns the place of the key, or PS_KEYMAP_NONE. */
int64_t ps_keymap_find(const ps_keymap *map, uint64_t key);
/* Sets the place of the key. Adds the key if the map does not have it. */
void ps_keymap_put(ps_keymap *map, uint64_t key, uint32_t place);
/* Removes the key, which must be in the map. */
void ps_keymap_remove(ps_keymap *map, uint64_t key);

/* Returns the hash of a key. Its top bits choose the virtual shard, its low bits the entry of a
 * map. */
uint64_t ps_key_hash(uint64_t key);

#endif
