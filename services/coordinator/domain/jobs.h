/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the list of the jobs that are not over.
 *
 * Pure. Jobs are listed in the order of their submission, and found by id through a hash table.
 * Jobs with an attempt are also in a second list, so that handling events of nodes does not take
 * the time to go through the queue. Changes of the jobs are published to the observers of
 * `board`. */
#ifndef PS_COORDINATOR_JOBS_H
#define PS_COORDINATOR_JOBS_H

#include "services/coordinator/domain/live_job.h"

typedef struct ps_jobs {
    ps_live *first, *last; /* oldest first */
    ps_live *active;       /* jobs with an attempt, in no order */
    size_t count, queued;  /* number of all jobs, and of those without an attempt */
    size_t named;          /* number of jobs that name their nodes */
    size_t hurried;        /* number of jobs that may not wait: Job.no_queue */
    ps_live **by_id;       /* hash table: lists of jobs by a hash of the id */
    ps_job_board board;
} ps_jobs;

/* Initialises an empty list. `clock` returns monotonic microseconds; it limits the rate of progress
 * events. */
void ps_jobs_init(ps_jobs *jobs, int64_t (*clock)(void));

/* Frees all jobs without informing observers. */
void ps_jobs_fini(ps_jobs *jobs);

/* Add a job at the end (the beginning) of the list. Its number must be higher (lower) than all
 * others. Observers are not called. */
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

/* Handles the end of a job's attempt when the job's state is stored. If that state is final,
 * removes the job, publishes PS_JOB_OVER and frees the job; else publishes PS_JOB_QUEUED. */
void ps_jobs_settle(ps_jobs *jobs, ps_live *job);

#endif
