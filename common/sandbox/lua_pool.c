/* SPDX-License-Identifier: Apache-2.0 */
/* lua_pool.c - see lua_pool.h. */
#include "common/sandbox/lua_pool.h"

#include <stdint.h>

enum {
    POOL_BYTES = 2 * 1024 * 1024,
    STEP = 16,
    SIZES = 64 /* objects have STEP to SIZES * STEP bytes */
};

typedef struct idle {
    struct idle *next;
} idle;

/* The one pool of the process. An object that was given back is used again for its size only. */
static struct {
    _Alignas(64) uint8_t memory[POOL_BYTES];
    size_t used;       /* bytes of `memory` that have a size */
    idle *idle[SIZES]; /* objects that were given back, by size */
} pool;

static size_t size_of(size_t bytes)
{
    return (bytes - 1) / STEP;
}

bool ps_lua_pool_is_same(size_t a, size_t b)
{
    return size_of(a) == size_of(b);
}

void *ps_lua_pool_take(size_t bytes)
{
    size_t size = size_of(bytes), whole = (size + 1) * STEP;
    idle *p;

    if (size >= SIZES) {
        return NULL;
    }
    p = pool.idle[size];
    if (p != NULL) {
        pool.idle[size] = p->next;
        return p;
    }
    if (whole > POOL_BYTES - pool.used) {
        return NULL;
    }
    pool.used += whole;
    return pool.memory + pool.used - whole;
}

bool ps_lua_pool_has(const void *p)
{
    return (uintptr_t)p - (uintptr_t)pool.memory < POOL_BYTES;
}

void ps_lua_pool_give(void *p, size_t bytes)
{
    idle *object = p;
    size_t size = size_of(bytes);

    object->next = pool.idle[size];
    pool.idle[size] = object;
}
