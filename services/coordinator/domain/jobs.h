/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the jobs that are not over, and who is told of their changes.
 *
 * Pure. Jobs stand in the order of their submission; one is found by its id without a walk. Those
 * that have an attempt are listed a second time, so that what concerns nodes does not walk through
 * the queue.
 *
 * A change is published once, to all observers in the order in which they were added. The registry,
 * the log, the queue, watchers and downloads are observers; a job knows none of them.
 */
#ifndef PS_COORDINATOR_JOBS_H
#define PS_COORDINATOR_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_live ps_live;

typedef enum ps_job_news {
    PS_JOB_TO_STORE, /* a change waits to be stored: ps_live_take_change */
    PS_JOB_STATE,    /* the state is another, with its reason and message */
    PS_JOB_SAVING,   /* is_unsaved has changed: changes are stored again, or are not */
    PS_JOB_EVENT,    /* there is an event to read: a stored one, or progress */
    PS_JOB_FILES,    /* a file of the job has grown */
    PS_JOB_QUEUED,   /* it has joined the queue, or is back in it */
    PS_JOB_OVER      /* its final state is stored; ps_jobs_find finds it no more */
} ps_job_news;

/* Receives one change of `job`, which is borrowed. Must not free the job. */
typedef void ps_job_observer_fn(void *arg, ps_live *job, ps_job_news what);

enum { PS_JOB_OBSERVERS_MAX = 8 };

typedef struct ps_jobs {
    ps_live *first, *last;  /* oldest first */
    ps_live *active;        /* those with an attempt, in no order */
    size_t count, queued;   /* all; those without an attempt */
    size_t named;           /* those that name their nodes */
    size_t hurried;         /* those that may not wait: Job.no_queue */
    size_t unsaved;         /* those with is_unsaved */
    ps_live **by_id;        /* chains by a hash of the id */
    int64_t (*clock)(void); /* monotonic microseconds */
    bool is_closed;         /* nothing can be stored any more */
    struct {
        ps_job_observer_fn *on_changed;
        void *arg;
    } observers[PS_JOB_OBSERVERS_MAX];
    size_t observer_count;
} ps_jobs;

/* `clock` tells when progress was shown. */
void ps_jobs_init(ps_jobs *jobs, int64_t (*clock)(void));

/* Frees all jobs, without a word to observers. */
void ps_jobs_fini(ps_jobs *jobs);

/* Adds an observer; `arg` is kept. */
void ps_jobs_observe(ps_jobs *jobs, ps_job_observer_fn *on_changed, void *arg);

/* Tells all observers. */
void ps_jobs_publish(ps_jobs *jobs, ps_live *job, ps_job_news what);

/* Adds a job behind (or before) all others; its number is higher (or lower) than theirs. Tells
 * nobody. */
void ps_jobs_append(ps_jobs *jobs, ps_live *job);
void ps_jobs_prepend(ps_jobs *jobs, ps_live *job);

/* Takes a job out. The caller then owns it. */
void ps_jobs_remove(ps_jobs *jobs, ps_live *job);

/* Returns the job, or NULL if it is over or unknown. */
ps_live *ps_jobs_find(const ps_jobs *jobs, const char *job_id);

/* Notes that the job has an attempt now, or none any more. */
void ps_jobs_activate(ps_jobs *jobs, ps_live *job);
void ps_jobs_deactivate(ps_jobs *jobs, ps_live *job);

/* The job has no attempt any more and its state is stored. If that is final, takes the job out,
 * publishes PS_JOB_OVER and frees it; else publishes PS_JOB_QUEUED. */
void ps_jobs_settle(ps_jobs *jobs, ps_live *job);

#endif
