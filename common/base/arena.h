/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that is given back all at once.
 *
 * A bump allocator with a cap, for what lives as long as a request: messages of
 * peers are unpacked into one, so that a hostile message can take no more than
 * the cap and dropping it is one call. One thread at a time.
 */
#ifndef PS_COMMON_BASE_ARENA_H
#define PS_COMMON_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { PS_ARENA_ALIGN_BYTES = 16 };

typedef struct ps_arena {
    struct ps_arena_block *blocks; /* newest first; the last one is kept by reset */
    uint8_t *next;                 /* free bytes of the newest block */
    size_t left_bytes;             /* how many */
    size_t used_bytes;             /* handed out since reset, with rounding */
    size_t cap_bytes;
} ps_arena;

/* Takes no memory yet. The cap counts what is handed out, each piece rounded up
 * to 16 bytes; what is taken from malloc is at most about twice that. */
void ps_arena_init(ps_arena *arena, size_t cap_bytes);

/* Aligned to 16 bytes, contents undefined. NULL when the cap would be passed or
 * memory runs out; later, smaller requests may succeed. */
void *ps_arena_alloc(ps_arena *arena, size_t bytes);

/* Everything handed out is gone. Keeps the first block, so that an arena used
 * for one small message after another never calls malloc again. */
void ps_arena_reset(ps_arena *arena);

/* Gives all memory back; the arena is as after init. */
void ps_arena_fini(ps_arena *arena);

#endif
