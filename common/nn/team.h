/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - threads that compute one layer together, for a model with more than one thread.
 *
 * Work is cut into items that write different values: samples, channels, blocks of tiles, stripes
 * of a product. Each value is computed by one thread, in the order in which one thread alone
 * computes it: the bits do not depend on the number of threads (tests/unit/test_team.c). Work too
 * small to gain is left to the caller (ps_team_for).
 */
#ifndef PS_COMMON_NN_TEAM_H
#define PS_COMMON_NN_TEAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_team ps_team;

enum {
    PS_TEAM_MAX = 64,
    /* Floats of a cache line: where parts of a tensor begin. */
    PS_TEAM_LINE = 16,
    /* The least values for which a layer that reads and writes each once uses the team. */
    PS_TEAM_VALUES = 1 << 15,
    /* The least products of two values for which a layer of products uses the team. */
    PS_TEAM_PRODUCTS = 1 << 23,
};

/* Returns the number of processors that this process may use, at least 1. */
uint32_t ps_team_processors(void);

/* Creates a team of `threads` (2 to PS_TEAM_MAX), the caller's included. Each of the others gets
 * `floats` of scratch memory. Returns NULL if the system gives no threads or no memory. */
ps_team *ps_team_create(uint32_t threads, size_t floats);

/* Ends the threads. NULL is allowed. */
void ps_team_destroy(ps_team *team);

/* Returns the number of threads; 1 for NULL. */
uint32_t ps_team_threads(const ps_team *team);

/* Returns the bytes of the team's scratch memory; 0 for NULL. */
size_t ps_team_memory(const ps_team *team);

/* Returns the scratch memory with this number, below ps_team_threads: `own`, the caller's, for 0.
 * Contents are undefined at first. */
float *ps_team_scratch(const ps_team *team, uint32_t number, float *own);

/* Returns the team, or NULL if `work` is below `least`, so that sharing it would cost more than it
 * gains. */
static inline ps_team *ps_team_for(ps_team *team, size_t work, size_t least)
{
    return work < least ? NULL : team;
}

/* Computes an item. `thread` is the number of the thread that does, 0 for the caller's. */
typedef void ps_team_fn(void *arg, uint32_t item, uint32_t thread);

/* Calls fn(arg, item, thread) once for each item below `items`, on the threads that are free, and
 * returns when all calls have returned. Without a team the caller's thread computes all items, in
 * order. One caller at a time; fn must not call it with the same team unless there is one item. */
void ps_team_run(ps_team *team, uint32_t items, ps_team_fn *fn, void *arg);

/* Returns where part `part` of `parts` begins if `size` is cut into parts of nearly the same size,
 * at multiples of `align`; `size` for part == parts. */
static inline size_t ps_part_at(size_t size, size_t align, uint32_t parts, uint32_t part)
{
    size_t at = (size + align - 1) / align * part / parts * align;

    return at < size ? at : size;
}

/* Computes [from, to). */
typedef void ps_range_fn(void *arg, size_t from, size_t to);

/* Cuts [0, size) into as many parts as the team has threads, at multiples of `align`, and calls fn
 * for each that is not empty. The rest as for ps_team_run. */
void ps_team_ranges(ps_team *team, size_t size, size_t align, ps_range_fn *fn, void *arg);

#endif
