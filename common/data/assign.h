/* SPDX-License-Identifier: Apache-2.0 */
/* assign.h - assignments: which worker holds which blocks of every global batch.
 *
 * Letters: n workers, r redundancy (copies of a block), S = block_size, B = S * block_count.
 * Block k of step t is the samples [tB + kS, tB + (k+1)S) of the epoch's order, unless is_by_file
 * or is_whole is true. The tail of an epoch that does not fill a global batch is not used.
 */
#ifndef PS_COMMON_DATA_ASSIGN_H
#define PS_COMMON_DATA_ASSIGN_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_BLOCKS_MAX = 65536,  /* limit of block_count */
    PS_COPIES_MAX = 1 << 20 /* limit of block_count * redundancy: 8 MiB of ids */
};

typedef struct ps_assignment {
    uint32_t workers, redundancy, block_count;
    uint32_t *holders;    /* (block_count, redundancy): workers of each block, ascending */
    uint32_t *held_count; /* (workers): number of blocks of each worker */
    uint32_t **held;      /* (workers)(held_count): blocks of each worker, ascending */
    /* each worker goes through the samples of its own files, those whose number modulo the workers
     * is its own, in an order of its own: block k of step t is the samples [tS, (t+1)S) of its
     * holder's order, which begins again when it ends before the epoch does */
    bool is_by_file;
    /* every worker goes through all samples in an epoch, in an order of its own: block k of step t
     * is the samples [tS, (t+1)S) of its holder's order, and a step takes S of an epoch's samples
     */
    bool is_whole;
} ps_assignment;

typedef struct ps_assign {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) if there is a "redundancy", it is the first */
    bool is_by_file;        /* is_by_file of the assignments that `make` makes */
    /* Makes the assignment for `workers` workers; the caller destroys *out. Returns
     * INVALID_ARGUMENT if the numbers do not fit the number of workers. Any thread. */
    PS_MUST_USE ps_status (*make)(uint32_t workers, const ps_params *params, ps_assignment **out);
} ps_assign;

/* Returns the assignment plugin with this name, or NULL if there is none. */
const ps_assign *ps_assign_find(const char *name);
/* Calls `fn` for every assignment plugin, in the order of list.h. */
void ps_assign_each(void (*fn)(const ps_assign *assign, void *arg), void *arg);
/* Frees an assignment. NULL is allowed. */
void ps_assignment_destroy(ps_assignment *assignment);

/* For the plugins: reads the first number as the redundancy. Returns INVALID_ARGUMENT if it is
 * not an integer from 1 to `workers`, or if there are no workers. */
PS_MUST_USE ps_status ps_assign_redundancy(uint32_t workers, const ps_params *params,
                                           uint32_t *redundancy);

/* For the plugins: creates an assignment whose `holders` are zeros. The plugin fills `holders`,
 * then calls ps_assignment_index. */
ps_assignment *ps_assignment_create(uint32_t workers, uint32_t redundancy, uint32_t block_count);
/* For the plugins: fills `held` and `held_count` from `holders`. */
void ps_assignment_index(ps_assignment *assignment);

/* Returns how many samples of an epoch a step takes. */
static inline uint64_t ps_assignment_step(const ps_assignment *a, uint32_t block_size)
{
    return (uint64_t)block_size * (a->is_whole ? 1 : a->block_count);
}

/* Writes the order of the samples of an epoch to `order` (count): a permutation of 0..count-1.
 * Every node can draw the order of every worker again. Unless each worker has an order of its own
 * (is_by_file, is_whole), all use that of worker 0. */
void ps_worker_order(uint64_t seed, uint64_t epoch, uint32_t worker, uint32_t *order,
                     uint32_t count);

#endif
