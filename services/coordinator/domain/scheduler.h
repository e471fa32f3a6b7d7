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

/* Returns how many worker processes a job takes: one a rank unless it names fewer; at least two if
 * some of its ranks are programs' and others are not. */
uint32_t ps_schedule_processes(const Psgd__V1__JobSpec *spec);

/* How many nodes may be chosen now. */
typedef struct ps_idle {
    uint32_t workers, pservers;
} ps_idle;
void ps_schedule_count(const ps_nodes *nodes, int64_t now_us, ps_idle *out);

/* Returns whether enough nodes are idle for a job that names none and has lost none. */
bool ps_schedule_may_fit(const ps_idle *idle, const Psgd__V1__JobSpec *spec);

/* Writes the ids of nodes that do not answer calls to buf[0..cap); "": there are none. */
void ps_schedule_suspects(const ps_nodes *nodes, char *buf, size_t cap);

/* A job that wants nodes. */
typedef struct ps_want {
    const Psgd__V1__JobSpec *spec;
    /* The job goes on after a loss: with fewer nodes, at least one of each role and workers_min, if
     * it names none. Of those that it names it waits for the ones that are not back. */
    bool is_after_loss;
} ps_want;

/* Chooses the nodes of a job. Fills members (*count, at most ps_schedule_processes +
 * spec->pservers): workers first, in the order of node ids or of spec->nodes; each worker gets a
 * run of ranks. Ranks of programs go to workers that programs of the title have joined by, and no
 * others do. Returns false if nodes are missing, and writes which, as in "needs 4 workers, 2
 * idle of 3 known; busy: w1 (job x)". A named address that no live node has registered gives a
 * member without an id, which is called to find out. `held` lists such addresses that jobs have
 * already: pairs of address and job id, ended by NULL. */
bool ps_schedule_job(const ps_nodes *nodes, const ps_want *want, const char *const *held,
                     int64_t now_us, ps_member *members, size_t *count, char *message, size_t cap);

#endif
