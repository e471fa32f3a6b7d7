/* SPDX-License-Identifier: Apache-2.0 */
/* job_queue.h - starts the jobs that wait as soon as what they need is free. Loop thread.
 *
 * A look at the queue costs what can start, and no more: jobs that need more nodes than are idle
 * are passed over by comparing two numbers, and what a job lacks is said for those in front alone.
 */
#ifndef PS_COORDINATOR_JOB_QUEUE_H
#define PS_COORDINATOR_JOB_QUEUE_H

#include "services/coordinator/domain/live_job.h"

typedef struct ps_coordinator ps_coordinator;

enum { PS_QUEUE_FRONT = 50 }; /* jobs that are told what they wait for */

/* What a job further back is told. */
#define PS_QUEUE_BEHIND                                                                            \
    "waits behind other jobs; what it lacks is said when it is among the first 50 of the queue"

/* Starts what can start now, tells the first of the others what they wait for. */
void ps_queue_look(ps_coordinator *c);

/* The observer: looks soon when a job joins the queue, or has left its nodes. `arg` is the
 * coordinator. */
ps_job_observer_fn ps_queue_changed;

#endif
