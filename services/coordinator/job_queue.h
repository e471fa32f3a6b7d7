/* SPDX-License-Identifier: Apache-2.0 */
/* job_queue.h - starts waiting jobs as soon as the nodes and the memory that they need are free.
 * Loop's thread.
 *
 * A pass over the queue is cheap for jobs that cannot start: a job that needs more nodes than are
 * idle is skipped after a comparison of two numbers. Only the first PS_QUEUE_FRONT jobs get a
 * message with what they lack.
 */
#ifndef PS_COORDINATOR_JOB_QUEUE_H
#define PS_COORDINATOR_JOB_QUEUE_H

#include "services/coordinator/domain/live_job.h"

typedef struct ps_coordinator ps_coordinator;

/* number of jobs at the front of the queue whose messages say what they wait for */
enum { PS_QUEUE_FRONT = 50 };

/* The message of a queued job behind the first PS_QUEUE_FRONT. */
#define PS_QUEUE_BEHIND                                                                            \
    "waits behind other jobs; what it lacks is said when it is among the first 50 of the queue"

/* Starts the jobs that can start now, and sets what the first of the others wait for. Jobs that
 * name their nodes may have to take turns: a call tries only so many. A job that may not wait
 * (Job.no_queue) and has not begun becomes FAILED with the reason WOULD_WAIT instead. If no job is
 * queued, has idle nodes join running jobs that want more. */
void ps_queue_look(ps_coordinator *c);

/* Returns whether nodes and memory are free now for a job whose package takes `memory_bytes`. If
 * not, writes which nodes or how much memory are lacking to message[0..cap), in the words of
 * ps_schedule_job. */
bool ps_queue_may_start(ps_coordinator *c, const Psgd__V1__JobSpec *spec, uint64_t memory_bytes,
                        char *message, size_t cap);

/* Observes jobs: schedules a ps_queue_look when a job joins the queue or has left its nodes. A job
 * that left them to go on with others (ps_live.returns) is tried at once. `arg` is the
 * coordinator. */
ps_job_observer_fn ps_queue_changed;

#endif
