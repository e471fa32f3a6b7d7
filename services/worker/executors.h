/* SPDX-License-Identifier: Apache-2.0 */
/* executors.h - the ranks of a job that computes partitions (JobSpec.compute), in this process.
 *
 * Each rank asks the coordinator for a partition and lets a sandbox compute its records. It sends
 * the records to the coordinator with the next request, or, if the job has servers, to the servers
 * before that request. It repeats this until all partitions are done. Loop's thread. */
#ifndef PS_SERVICES_WORKER_EXECUTORS_H
#define PS_SERVICES_WORKER_EXECUTORS_H

#include "common/node/node.h"

typedef struct ps_executors ps_executors;

typedef struct ps_executors_conf {
    ps_loop *loop;
    ps_node *node;
    const ps_session *session; /* kept */
    /* Called once after ps_executors_start, when all ranks have ended. *result is the first
     * failure; OK also if the ranks were stopped. */
    void (*ended)(void *arg, const ps_status *result);
    void *arg;
} ps_executors_conf;

/* Creates the ranks. Fails if there are no threads for them. */
PS_MUST_USE ps_status ps_executors_create(const ps_executors_conf *conf, ps_executors **out);

/* Frees ranks that were not started, or have ended. NULL is allowed. */
void ps_executors_destroy(ps_executors *executors);

/* Starts a sandbox for each rank, and computes. A rank whose sandbox fails to start with
 * RESOURCE_EXHAUSTED leaves the partitions to the other ranks; if that happens to all, it is the
 * result. Any other failure of a rank stops all. `ended` is called at the end. */
void ps_executors_start(ps_executors *executors);

/* Makes the ranks end soon. If they were started and have not ended, `ended` is called then. */
void ps_executors_stop(ps_executors *executors);

/* Sets *list to the ranks' progress, in which a step is a partition. Returns the number of ranks.
 * The list is valid until the next call. */
size_t ps_executors_progress(ps_executors *executors, Psgd__V1__WorkerProgress ***list);

#endif
