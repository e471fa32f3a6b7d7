/* SPDX-License-Identifier: Apache-2.0 */
/* keymap.c - see keymap.h. */
#include "common/store/keymap.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CAP_FIRST = 16 };

uint64_t ps_key_hash(uint64_t key)
{
    return ps_draw_u64(0, key);
}

void ps_keymap_fini(ps_keymap *map)
{
    free(map->entries);
    *map = (ps_keymap){0};
}

/* Returns the entry of the key, or the free entry where it would be. */
static size_t probe(const ps_keymap *map, uint64_t key)
{
    size_t i = ps_key_hash(key) & (map->cap - 1);

    while (map->entries[i].place != 0 && map->entries[i].key != key) {
        i = (i + 1) & (map->cap - 1);
    }
    return i;
}

int64_t ps_keymap_find(const ps_keymap *map, uint64_t key)
{
    return map->cap == 0 ? PS_KEYMAP_NONE : (int64_t)map->entries[probe(map, key)].place - 1;
}

static void grow(ps_keymap *map)
{
    ps_keymap larger = {.cap = map->cap > 0 ? 2 * map->cap : CAP_FIRST, .count = map->count};

    larger.entries = ps_xcalloc(larger.cap, sizeof *larger.entries);
    for (size_t i = 0; i < map->cap; i++) {
        if (map->entries[i].place != 0) {
            larger.entries[probe(&larger, map->entries[i].key)] = map->entries[i];
        }
    }
    free(map->entries);
    *map = larger;
}

void ps_keymap_put(ps_keymap *map, uint64_t key, uint32_t place)
{
    size_t i;

    if (2 * (map->count + 1) > map->cap) {
        grow(map);
    }
    i = probe(map, key);
    map->count += map->entries[i].place == 0;
    map->entries[i] = (ps_keymap_entry){.key = key, .place = (uint64_t)place + 1};
}

/* Frees the entry of the key, which must be in the map. Moves later entries into the hole if they
 * could not be found across it. */
void ps_keymap_remove(ps_keymap *map, uint64_t key)
{
    size_t mask = map->cap - 1, hole = probe(map, key);

    assert(map->entries[hole].place != 0);
    for (size_t i = (hole + 1) & mask; map->entries[i].place != 0; i = (i + 1) & mask) {
        size_t home = ps_key_hash(map->entries[i].key) & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole].place = 0;
    map->count--;
}
