/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.h - chooses the nodes for a job, or says what it waits for.
 *
 * Pure. Jobs are tried in the order of their submission. A job that can start does so even if an
 * older one waits for more nodes. Every node serves one job at a time.
 */
#ifndef PS_COORDINATOR_SCHEDULER_H
#define PS_COORDINATOR_SCHEDULER_H

#include "services/coordinator/domain/commit.h"
#include "services/coordinator/domain/known_nodes.h"

/* Returns how many worker processes a job takes: one for each rank, unless the job names fewer; at
 * least two if programs compute some of its ranks and psgd the others. */
uint32_t ps_schedule_processes(const Psgd__V1__JobSpec *spec);

/* How many nodes of psgd's own, not programs that joined, may be chosen now. */
typedef struct ps_idle {
    uint32_t workers, pservers;
} ps_idle;
void ps_schedule_count(const ps_nodes *nodes, int64_t now_us, ps_idle *out);

/* Returns whether enough nodes of psgd's own are idle for a job that names none and has lost
 * none. */
bool ps_schedule_may_fit(const ps_idle *idle, const Psgd__V1__JobSpec *spec);

/* Writes the ids of up to five nodes that do not answer calls to buf[0..cap); "": there are
 * none. */
void ps_schedule_suspects(const ps_nodes *nodes, char *buf, size_t cap);

/* A job that nodes are chosen for. */
typedef struct ps_want {
    const Psgd__V1__JobSpec *spec;
    /* The job goes on after a loss. If it names no nodes, it may go on with fewer: at least one of
     * each role, and workers_min workers. If it names nodes, it waits for those that are not
     * back. */
    bool is_after_loss;
} ps_want;

/* Chooses the nodes of a job. Fills members (*count, at most ps_schedule_processes +
 * spec->pservers): workers first, in the order of node ids or of spec->nodes. Each worker gets
 * consecutive ranks. Ranks that programs compute go to workers of programs that have joined under
 * the job's title, and other ranks go to other workers. Returns false if nodes are missing, and
 * writes which, such as "needs 4 workers, 2 idle of 3 known; busy: w1 (job x)". A named address
 * that no live node has registered becomes a member without an id, which is called to find out its
 * id; after a loss the job waits for it instead. `held` lists such addresses that other jobs have:
 * pairs of address and job id, ended by NULL. */
bool ps_schedule_job(const ps_nodes *nodes, const ps_want *want, const char *const *held,
                     int64_t now_us, ps_member *members, size_t *count, char *message, size_t cap);

#endif
