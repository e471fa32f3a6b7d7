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

/* Starts what can start now, tells the first of the others what they wait for. A job that may not
 * wait (Job.no_queue) is FAILED instead, with the reason WOULD_WAIT. */
void ps_queue_look(ps_coordinator *c);

/* Returns whether a job whose package takes `memory_bytes` could start now; else says in
 * message[0..cap) what it lacks, as ps_schedule_job does. */
bool ps_queue_may_start(ps_coordinator *c, const Psgd__V1__JobSpec *spec, uint64_t memory_bytes,
                        char *message, size_t cap);

/* The observer: looks soon when a job joins the queue, or has left its nodes. `arg` is the
 * coordinator. */
ps_job_observer_fn ps_queue_changed;

#endif
