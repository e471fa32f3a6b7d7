/* SPDX-License-Identifier: Apache-2.0 */
/* wire_parts.h - the parts of a job that a server, or one of its threads, has.
 *
 * A part is a store with some of the server's virtual shards, and perhaps the sparse tables. The
 * results do not depend on which part has a slice. A thread of a parameter server has one part of
 * its own. In one process all threads use all parts; each part has its own lock, so that threads
 * seldom wait for one another.
 */
#ifndef PS_COMMON_WIRE_WIRE_PARTS_H
#define PS_COMMON_WIRE_WIRE_PARTS_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

#include <pthread.h>

typedef struct ps_wire_part {
    pthread_mutex_t mutex; /* guards the store if the parts are shared. No other lock is taken while
                            * it is held. */
    ps_store *store;
    uint32_t count;
    uint32_t *slices; /* (count), of the layout, ascending */
} ps_wire_part;

typedef struct ps_wire_parts {
    const ps_plan *plan; /* kept */
    bool is_shared;      /* several threads use the parts */
    uint32_t count;
    ps_wire_part *part; /* (count) */
    uint8_t *part_of;   /* (slice_count); only of slices that the server has */
} ps_wire_parts;

enum { PS_WIRE_PARTS_MAX = 8 };

/* Initialises the one part that a thread of a server has: `part` of the placement. `weights`,
 * borrowed, are the slices that the server holds, one after the other. `tables`, which may be NULL,
 * are taken.
 */
void ps_wire_parts_init(ps_wire_parts *parts, const ps_plan *plan, const ps_placement *placement,
                        uint32_t part, const float *weights, ps_tables *tables);

/* Distributes the virtual shards of server 0 over at most PS_WIRE_PARTS_MAX parts, for threads that
 * share them. `weights`, borrowed, are the whole block (param_count). `tables`, which may be NULL,
 * are in the first part; taken. */
void ps_wire_parts_init_shared(ps_wire_parts *parts, const ps_plan *plan,
                               const ps_placement *placement, const float *weights,
                               ps_tables *tables);
/* Frees all parts. A zeroed struct is allowed. */
void ps_wire_parts_fini(ps_wire_parts *parts);

/* Returns the part of the placement that keeps what ranks say (rank_reports.h). Every contribution
 * has something for it: a slice, the model's first one, or, in a model without slices, rows. */
static inline uint32_t ps_wire_report_part(const ps_placement *placement)
{
    return placement->layout->slice_count > 0 ? placement->part_of[0] : placement->first_part[0];
}

/* Returns whether the part keeps them: that one, or the one with its copy. */
static inline bool ps_wire_keeps_reports(const ps_placement *placement, uint32_t part)
{
    return ps_placement_original(placement, part) == ps_wire_report_part(placement);
}

/* Returns the part that has a slice; the first for one that the server does not have. */
ps_wire_part *ps_wire_part_of(const ps_wire_parts *parts, uint32_t slice);

/* Locks a part, if the parts are shared. */
void ps_wire_part_lock(const ps_wire_parts *parts, ps_wire_part *part);
/* Locks a shared part, or returns false if another thread has it. Never blocks. */
bool ps_wire_part_try_lock(const ps_wire_parts *parts, ps_wire_part *part);
/* Unlocks a part, if the parts are shared. */
void ps_wire_part_unlock(const ps_wire_parts *parts, ps_wire_part *part);

/* Copies the weights to their places in `block` (param_count). Frees the slices of a part before it
 * copies the next part, so this needs no more memory than training did. Afterwards only end links,
 * read counters and call ps_wire_parts_fini. */
void ps_wire_parts_take_weights(ps_wire_parts *parts, float *block);

/* Returns the counters, summed over all parts. */
ps_store_counters ps_wire_parts_counters(ps_wire_parts *parts);

#endif
