/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that is freed all at once.
 *
 * A bump allocator with a cap, for memory that lives as long as a request. Received messages are
 * unpacked into an arena: a hostile message can take no more than the cap, and one call frees it.
 * One thread at a time.
 */
#ifndef PS_COMMON_BASE_ARENA_H
#define PS_COMMON_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { PS_ARENA_ALIGN_BYTES = 16 };

typedef struct ps_arena {
    struct ps_arena_block *blocks; /* a list, newest first; reset keeps only its oldest */
    uint8_t *next;                 /* free bytes of the newest block */
    /* number of free bytes from `next` to the end of the newest block */
    size_t left_bytes;
    size_t used_bytes; /* allocated since reset, rounding included */
    size_t cap_bytes;  /* the most that used_bytes may become */
} ps_arena;

/* Makes an empty arena without allocating. The cap counts allocated bytes, each allocation
 * rounded up to 16. The arena takes at most about twice the cap from malloc. */
void ps_arena_init(ps_arena *arena, size_t cap_bytes);

/* Returns `bytes` bytes, aligned to 16, contents undefined. Returns NULL if the cap would be
 * exceeded or memory runs out; a later, smaller request may succeed. */
void *ps_arena_alloc(ps_arena *arena, size_t bytes);

/* Frees all allocations. Keeps the oldest block, so that an arena for one small message after
 * another does not call malloc again. */
void ps_arena_reset(ps_arena *arena);

/* Frees all memory; the arena is then as after init. */
void ps_arena_fini(ps_arena *arena);

#endif
