/* SPDX-License-Identifier: Apache-2.0 */
/* train_trackers.h - the trackers of a job that psgd train runs. On the loop's thread. */
#ifndef PS_CLIENTS_PSGD_TRAIN_TRACKERS_H
#define PS_CLIENTS_PSGD_TRAIN_TRACKERS_H

#include "common/tracker/tracked.h"

#include <pthread.h>

enum { PS_TRAIN_TRACKERS_WAIT_US = 30 * 1000000 }; /* most that the end of a job waits for them */

typedef struct ps_train_trackers {
    ps_tracker *tracker; /* NULL: there are none */
    ps_tracker_logins logins;
    ps_tracked told;
    Psgd__V1__TrackerRun runs[PS_TRACKERS_MAX], *list[PS_TRACKERS_MAX];
    size_t count;
    pthread_mutex_t lock; /* guards the texts of `runs` */
} ps_train_trackers;

/* Begins to tell the trackers of the job, if it has some: each training is a run of its own, with
 * logins of the environment. Fails with FAILED_PRECONDITION without libcurl. Call
 * ps_train_trackers_fini in any case; a zeroed one is allowed there. */
PS_MUST_USE ps_status ps_train_trackers_start(ps_train_trackers *t, const Psgd__V1__Job *job);

/* Tell of progress, of an evaluation, and of the end with the files in `folder`. */
void ps_train_trackers_progress(ps_train_trackers *t, const Psgd__V1__Job *job);
void ps_train_trackers_result(ps_train_trackers *t, const Psgd__V1__Job *job);
void ps_train_trackers_end(ps_train_trackers *t, const Psgd__V1__Job *job, const char *folder);

/* Returns whether the trackers have all. */
bool ps_train_trackers_is_done(const ps_train_trackers *t);

/* Stops to tell, and adds to the job what became of its trackers; valid until fini. */
void ps_train_trackers_stop(ps_train_trackers *t, Psgd__V1__Job *job);

void ps_train_trackers_fini(ps_train_trackers *t);

#endif
