/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the list of the jobs that are not over.
 *
 * Pure. Jobs are listed in the order of their submission, and found by id through a hash table.
 * Jobs with an attempt are also in a second list, so that events of nodes need not pass through
 * the queue. The observers of their changes are those of `board`.
 */
#ifndef PS_COORDINATOR_JOBS_H
#define PS_COORDINATOR_JOBS_H

#include "services/coordinator/domain/live_job.h"

typedef struct ps_jobs {
    ps_live *first, *last; /* oldest first */
    ps_live *active;       /* jobs with an attempt, in no order */
    size_t count, queued;  /* all jobs; jobs without an attempt */
    size_t named;          /* jobs that name their nodes */
    size_t hurried;        /* jobs that may not wait: Job.no_queue */
    ps_live **by_id;       /* chains by a hash of the id */
    ps_job_board board;
} ps_jobs;

/* Initialises an empty list. `clock` returns the time in microseconds, for the rate of progress
 * events. */
void ps_jobs_init(ps_jobs *jobs, int64_t (*clock)(void));

/* Frees all jobs without informing observers. */
void ps_jobs_fini(ps_jobs *jobs);

/* Add a job after (before) all others, whose numbers must be lower (higher). Observers are not
 * called. */
void ps_jobs_append(ps_jobs *jobs, ps_live *job);
void ps_jobs_prepend(ps_jobs *jobs, ps_live *job);

/* Removes a job from the list. The caller then owns it. */
void ps_jobs_remove(ps_jobs *jobs, ps_live *job);

/* Returns the job, or NULL if it is over or unknown. */
ps_live *ps_jobs_find(const ps_jobs *jobs, const char *job_id);

/* Returns the list that the job is in. */
ps_jobs *ps_jobs_of(const ps_live *job);

/* Notes that the job has an attempt now, or none any more. */
void ps_jobs_activate(ps_jobs *jobs, ps_live *job);
void ps_jobs_deactivate(ps_jobs *jobs, ps_live *job);

/* Handles the end of a job's attempt, whose state is stored. If the state is final, removes the
 * job, publishes PS_JOB_OVER and frees the job; else publishes PS_JOB_QUEUED. */
void ps_jobs_settle(ps_jobs *jobs, ps_live *job);

#endif
