/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h. */
#include "common/base/arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTES = 4096,      /* usual size of the first block: most control messages fit into it */
    LARGEST_BYTES = 1 << 20, /* blocks double up to this; a larger one only for a larger request */
};

typedef struct ps_arena_block {
    struct ps_arena_block *next;
    size_t bytes; /* bytes of data */
    _Alignas(PS_ARENA_ALIGN_BYTES) uint8_t data[];
} ps_arena_block;

void ps_arena_init(ps_arena *arena, size_t cap_bytes)
{
    *arena = (ps_arena){.cap_bytes = cap_bytes};
}

static int add_block(ps_arena *arena, size_t need)
{
    size_t bytes = FIRST_BYTES;
    ps_arena_block *block;

    if (arena->blocks != NULL) {
        bytes = arena->blocks->bytes < LARGEST_BYTES / 2 ? arena->blocks->bytes * 2 : LARGEST_BYTES;
    }
    if (bytes > arena->cap_bytes - arena->used_bytes) {
        bytes = arena->cap_bytes - arena->used_bytes;
    }
    if (bytes < need) {
        bytes = need;
    }
    block = malloc(sizeof *block + bytes);
    if (block == NULL) {
        return -1;
    }
    block->next = arena->blocks;
    block->bytes = bytes;
    arena->blocks = block;
    arena->next = block->data;
    arena->left_bytes = bytes;
    return 0;
}

void *ps_arena_alloc(ps_arena *arena, size_t bytes)
{
    size_t room = arena->cap_bytes - arena->used_bytes;
    size_t rounded;
    void *p;

    rounded = (bytes + PS_ARENA_ALIGN_BYTES - 1) / PS_ARENA_ALIGN_BYTES * PS_ARENA_ALIGN_BYTES;
    if (rounded == 0) {
        /* allocations of 0 bytes get distinct pointers and count against the cap */
        rounded = PS_ARENA_ALIGN_BYTES;
    }
    if (rounded < bytes || rounded > room) { /* rounded < bytes: the rounding has overflowed */
        return NULL;
    }
    if (rounded > arena->left_bytes && add_block(arena, rounded) != 0) {
        return NULL;
    }
    p = arena->next;
    arena->next += rounded;
    arena->left_bytes -= rounded;
    arena->used_bytes += rounded;
    return p;
}

void ps_arena_reset(ps_arena *arena)
{
    ps_arena_block *block = arena->blocks;

    arena->used_bytes = 0;
    if (block == NULL) {
        return;
    }
    while (block->next != NULL) {
        ps_arena_block *older = block->next;

        free(block);
        block = older;
    }
    arena->blocks = block;
    arena->next = block->data;
    arena->left_bytes = block->bytes;
}

void ps_arena_fini(ps_arena *arena)
{
    ps_arena_reset(arena);
    free(arena->blocks);
    ps_arena_init(arena, arena->cap_bytes);
}
