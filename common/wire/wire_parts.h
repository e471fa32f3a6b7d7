/* SPDX-License-Identifier: Apache-2.0 */
/* wire_parts.h - the parts of a job that a server, or one of its threads, has.
 *
 * A part is a store with some of the server's virtual shards, and perhaps the sparse tables. Which
 * part has a slice changes no result. A thread of a parameter server has one part of its own. In
 * one process all threads use all parts; each part has its own lock, so that threads seldom wait
 * for one another. */
#ifndef PS_COMMON_WIRE_WIRE_PARTS_H
#define PS_COMMON_WIRE_WIRE_PARTS_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

#include <pthread.h>

typedef struct ps_wire_part {
    /* guards the store if the parts are shared. A thread that holds it takes no other lock. */
    pthread_mutex_t mutex;
    ps_store *store;
    uint32_t count;   /* number of slices of the part */
    uint32_t *slices; /* (count): numbers of the layout, ascending */
} ps_wire_part;

typedef struct ps_wire_parts {
    const ps_plan *plan; /* kept */
    bool is_shared;      /* several threads use the parts */
    uint32_t count;
    ps_wire_part *part; /* (count) */
    /* (slice_count): index in `part` of the slice's part; set only for slices that the server
     * has */
    uint8_t *part_of;
} ps_wire_parts;

/* Most parts that threads of one process share. */
enum { PS_WIRE_PARTS_MAX = 8 };

/* Initialises the one part that a thread of a server has: number `part` of the placement.
 * `weights`, borrowed, has the slices that the server holds, one after the other. Takes `tables`,
 * which may be NULL. */
void ps_wire_parts_init(ps_wire_parts *parts, const ps_plan *plan, const ps_placement *placement,
                        uint32_t part, const float *weights, ps_tables *tables);

/* Distributes the virtual shards of server 0 over at most PS_WIRE_PARTS_MAX parts, which threads
 * share. `weights` (param_count), borrowed, is the whole block of weights. Takes `tables`, which
 * may be NULL, into the first part. */
void ps_wire_parts_init_shared(ps_wire_parts *parts, const ps_plan *plan,
                               const ps_placement *placement, const float *weights,
                               ps_tables *tables);
/* Frees all parts. A zeroed struct is allowed. */
void ps_wire_parts_fini(ps_wire_parts *parts);

/* Returns the part of the placement that keeps the reports of ranks (rank_reports.h). Every
 * contribution has something for it: the model's first slice or, in a model without slices,
 * rows. */
static inline uint32_t ps_wire_report_part(const ps_placement *placement)
{
    return placement->layout->slice_count > 0 ? placement->part_of[0] : placement->first_part[0];
}

/* Returns whether the part keeps the reports of ranks: the part of ps_wire_report_part does, and
 * the one that has its copy. */
static inline bool ps_wire_keeps_reports(const ps_placement *placement, uint32_t part)
{
    return ps_placement_original(placement, part) == ps_wire_report_part(placement);
}

/* Returns the part that has a slice. Returns the first part for a slice that the server does not
 * have. */
ps_wire_part *ps_wire_part_of(const ps_wire_parts *parts, uint32_t slice);

/* Locks a part, if the parts are shared. */
void ps_wire_part_lock(const ps_wire_parts *parts, ps_wire_part *part);
/* Locks a part and returns true, or returns false if another thread has it. Only for shared parts.
 * Never blocks. */
bool ps_wire_part_try_lock(const ps_wire_parts *parts, ps_wire_part *part);
/* Unlocks a part, if the parts are shared. */
void ps_wire_part_unlock(const ps_wire_parts *parts, ps_wire_part *part);

/* Copies the weights of all parts to their places in `block` (param_count). Frees the slices of
 * each part before it copies the next, so that no more memory is needed than in training.
 * Afterwards the caller may only end links, read counters and call ps_wire_parts_fini. */
void ps_wire_parts_take_weights(ps_wire_parts *parts, float *block);

/* Returns the counters, added over all parts. */
ps_store_counters ps_wire_parts_counters(ps_wire_parts *parts);

#endif
