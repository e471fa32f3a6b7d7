/* SPDX-License-Identifier: Apache-2.0 */
/* train_trackers.h - sends a job that psgd train runs to the job's trackers. On the loop's
 * thread. */
#ifndef PS_CLIENTS_PSGD_TRAIN_TRACKERS_H
#define PS_CLIENTS_PSGD_TRAIN_TRACKERS_H

#include "common/tracker/tracked.h"

#include <pthread.h>

/* longest time that the end of a job waits for its trackers */
enum { PS_TRAIN_TRACKERS_WAIT_US = 30 * 1000000 };

typedef struct ps_train_trackers {
    ps_tracker *tracker; /* NULL: the job has no trackers */
    ps_tracker_logins logins;
    ps_tracked told;
    Psgd__V1__TrackerRun runs[PS_TRACKERS_MAX], *list[PS_TRACKERS_MAX];
    size_t count;
    pthread_mutex_t lock; /* guards the texts of `runs` */
} ps_train_trackers;

/* Begins to send to the job's trackers, if it has some. Each training is a run of its own; logins
 * come from the environment. Returns FAILED_PRECONDITION if libcurl cannot be loaded,
 * INVALID_ARGUMENT if a login is too long or not printable. Call ps_train_trackers_fini after a
 * failure too; a zeroed struct is allowed there. */
PS_MUST_USE ps_status ps_train_trackers_start(ps_train_trackers *t, const Psgd__V1__Job *job);

/* Sends the job's progress to its trackers. Does nothing if the job has none. */
void ps_train_trackers_progress(ps_train_trackers *t, const Psgd__V1__Job *job);
/* Sends the result of an evaluation to the job's trackers. */
void ps_train_trackers_result(ps_train_trackers *t, const Psgd__V1__Job *job);
/* Sends the end of the job and its files, which are in `folder`, to the job's trackers. */
void ps_train_trackers_end(ps_train_trackers *t, const Psgd__V1__Job *job, const char *folder);

/* Returns whether ps_train_trackers_end was called and nothing is left to send; true if the job has
 * no trackers. */
bool ps_train_trackers_is_done(const ps_train_trackers *t);

/* Stops sending, and sets job->tracker_runs: what each tracker has of the job, or why it does not
 * have all. These are valid until ps_train_trackers_fini. */
void ps_train_trackers_stop(ps_train_trackers *t, Psgd__V1__Job *job);

void ps_train_trackers_fini(ps_train_trackers *t);

#endif
