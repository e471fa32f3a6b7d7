/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the jobs that are not over, and the observers of their changes.
 *
 * Pure. Jobs are listed in the order of their submission, and found by id through a hash table.
 * Jobs with an attempt are also in a second list, so that events of nodes need not pass through
 * the queue.
 *
 * A change is published once to all observers, in the order in which they were added. The
 * registry, the log, the queue, watchers and downloads are observers; jobs do not know them.
 */
#ifndef PS_COORDINATOR_JOBS_H
#define PS_COORDINATOR_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_live ps_live;

typedef enum ps_job_news {
    PS_JOB_TO_STORE, /* a change waits to be stored: ps_live_take_change */
    PS_JOB_STATE,    /* the state has changed, with its reason and message */
    PS_JOB_SAVING,   /* is_unsaved has changed: changes are stored again, or are not */
    PS_JOB_EVENT,    /* an event can be read: a stored one, or progress */
    PS_JOB_FILES,    /* a file of the job has grown */
    PS_JOB_QUEUED,   /* the job has joined the queue, or is back in it */
    PS_JOB_OVER      /* the final state is stored; ps_jobs_find does not find the job any more */
} ps_job_news;

/* Receives one change of `job`, which is borrowed. Must not free the job. */
typedef void ps_job_observer_fn(void *arg, ps_live *job, ps_job_news what);

enum { PS_JOB_OBSERVERS_MAX = 8 };

typedef struct ps_jobs {
    ps_live *first, *last;  /* oldest first */
    ps_live *active;        /* jobs with an attempt, in no order */
    size_t count, queued;   /* all jobs; jobs without an attempt */
    size_t named;           /* jobs that name their nodes */
    size_t hurried;         /* jobs that may not wait: Job.no_queue */
    size_t unsaved;         /* jobs with is_unsaved */
    ps_live **by_id;        /* chains by a hash of the id */
    int64_t (*clock)(void); /* monotonic microseconds */
    bool is_closed;         /* nothing is stored any more */
    struct {
        ps_job_observer_fn *on_changed;
        void *arg;
    } observers[PS_JOB_OBSERVERS_MAX];
    size_t observer_count;
} ps_jobs;

/* Initialises an empty list. `clock` returns the time in microseconds, for the rate of progress
 * events. */
void ps_jobs_init(ps_jobs *jobs, int64_t (*clock)(void));

/* Frees all jobs without informing observers. */
void ps_jobs_fini(ps_jobs *jobs);

/* Adds an observer; `arg` is kept. */
void ps_jobs_observe(ps_jobs *jobs, ps_job_observer_fn *on_changed, void *arg);

/* Calls all observers. */
void ps_jobs_publish(ps_jobs *jobs, ps_live *job, ps_job_news what);

/* Add a job after (before) all others, whose numbers must be lower (higher). Observers are not
 * called. */
void ps_jobs_append(ps_jobs *jobs, ps_live *job);
void ps_jobs_prepend(ps_jobs *jobs, ps_live *job);

/* Removes a job from the list. The caller then owns it. */
void ps_jobs_remove(ps_jobs *jobs, ps_live *job);

/* Returns the job, or NULL if it is over or unknown. */
ps_live *ps_jobs_find(const ps_jobs *jobs, const char *job_id);

/* Notes that the job has an attempt now, or none any more. */
void ps_jobs_activate(ps_jobs *jobs, ps_live *job);
void ps_jobs_deactivate(ps_jobs *jobs, ps_live *job);

/* Handles the end of a job's attempt, whose state is stored. If the state is final, removes the
 * job, publishes PS_JOB_OVER and frees the job; else publishes PS_JOB_QUEUED. */
void ps_jobs_settle(ps_jobs *jobs, ps_live *job);

#endif
