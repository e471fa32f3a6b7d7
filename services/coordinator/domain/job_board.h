/* SPDX-License-Identifier: Apache-2.0 */
/* job_board.h - the observers of the changes of all jobs that are not over.
 *
 * Pure. A change is published once to all observers, in the order in which they were added. The
 * registry, the log, the queue, watchers and downloads are observers; jobs do not know them.
 */
#ifndef PS_COORDINATOR_JOB_BOARD_H
#define PS_COORDINATOR_JOB_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_live ps_live;

typedef enum ps_job_news {
    PS_JOB_TO_STORE, /* a change has to be stored: ps_live_take_change returns it */
    PS_JOB_STATE,    /* the state has changed; not if only its reason or message has */
    PS_JOB_SAVING,   /* is_unsaved has changed: changes can be stored again, or cannot */
    PS_JOB_EVENT,    /* an event can be read: a stored one, or progress */
    PS_JOB_FILES,    /* a file of the job has grown */
    PS_JOB_QUEUED,   /* the job has joined the queue, or is back in it */
    PS_JOB_OVER      /* the final state is stored, and ps_jobs_find no longer finds the job */
} ps_job_news;

/* Receives one change of `job`, which is borrowed. Must not free the job. */
typedef void ps_job_observer_fn(void *arg, ps_live *job, ps_job_news what);

enum { PS_JOB_OBSERVERS_MAX = 8 };

typedef struct ps_job_board {
    int64_t (*clock)(void); /* returns monotonic microseconds */
    bool is_closed;         /* nothing is stored any more, because the process ends */
    size_t unsaved;         /* number of jobs with is_unsaved */
    struct {
        ps_job_observer_fn *on_changed;
        void *arg;
    } observers[PS_JOB_OBSERVERS_MAX];
    size_t observer_count;
} ps_job_board;

/* Adds an observer; `arg` is kept. */
void ps_jobs_observe(ps_job_board *board, ps_job_observer_fn *on_changed, void *arg);

/* Calls all observers. */
void ps_jobs_publish(const ps_job_board *board, ps_live *job, ps_job_news what);

#endif
