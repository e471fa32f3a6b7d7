/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - threads that compute one layer together, for a model with more than one thread.
 *
 * Work is divided into items that write different values: samples, channels, blocks of tiles,
 * stripes of a product. Each value is computed by one thread, in the order in which a single thread
 * would compute it, so the bits do not depend on the number of threads (tests/unit/test_team.c).
 * Work that is too small to gain is done by the caller's thread alone (ps_team_for). */
#ifndef PS_COMMON_NN_TEAM_H
#define PS_COMMON_NN_TEAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_team ps_team;

enum {
    PS_TEAM_MAX = 64,
    /* floats of a cache line; parts of a tensor begin at multiples of it */
    PS_TEAM_LINE = 16,
    /* a layer that reads and writes each value once uses the team if it has at least this many
     * values */
    PS_TEAM_VALUES = 1 << 15,
    /* a layer of products uses the team if it has at least this many multiplications */
    PS_TEAM_PRODUCTS = 1 << 23,
};

/* Returns the number of processors that this process may use, at least 1. */
uint32_t ps_team_processors(void);

/* Creates a team of `threads` threads (2 to PS_TEAM_MAX), of which the caller's is one. Each of the
 * others gets `floats` floats of scratch memory. Returns NULL if the system gives no threads or no
 * memory. */
ps_team *ps_team_create(uint32_t threads, size_t floats);

/* Ends the threads. NULL is allowed. */
void ps_team_destroy(ps_team *team);

/* Returns the number of threads; 1 for NULL. */
uint32_t ps_team_threads(const ps_team *team);

/* Returns the bytes of the team's scratch memory; 0 for NULL. */
size_t ps_team_memory(const ps_team *team);

/* Returns the scratch memory of thread `number`, below ps_team_threads. Number 0 is the caller's
 * thread, whose scratch is `own`. A function that uses it finds undefined contents. */
float *ps_team_scratch(const ps_team *team, uint32_t number, float *own);

/* Returns the team, or NULL if `work` is below `least`, because sharing would then cost more than
 * it gains. */
static inline ps_team *ps_team_for(ps_team *team, size_t work, size_t least)
{
    return work < least ? NULL : team;
}

/* Computes one item. `thread` is the number of the thread that computes it, 0 for the caller's. */
typedef void ps_team_fn(void *arg, uint32_t item, uint32_t thread);

/* Calls fn(arg, item, thread) once for each item below `items`, on the team's threads, and returns
 * when all calls have returned. If `team` is NULL, the caller's thread computes all items, in
 * order. One caller at a time. fn must not call it with the same team, unless `items` is 1. */
void ps_team_run(ps_team *team, uint32_t items, ps_team_fn *fn, void *arg);

/* Returns where part `part` begins if `size` is divided into `parts` parts of nearly the same size
 * that begin at multiples of `align`; `size` for part == parts. */
static inline size_t ps_part_at(size_t size, size_t align, uint32_t parts, uint32_t part)
{
    size_t at = (size + align - 1) / align * part / parts * align;

    return at < size ? at : size;
}

/* Computes the items from `from` to before `to`. */
typedef void ps_range_fn(void *arg, size_t from, size_t to);

/* Divides [0, size) into as many parts as the team has threads, at multiples of `align`, and calls
 * fn for each part that is not empty. Otherwise as ps_team_run. */
void ps_team_ranges(ps_team *team, size_t size, size_t align, ps_range_fn *fn, void *arg);

#endif
