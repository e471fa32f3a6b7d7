/* SPDX-License-Identifier: Apache-2.0 */
/* train_trackers.c - see train_trackers.h. */
#include "clients/psgd/train_trackers.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void set(char **text, const char *to)
{
    free(*text);
    *text = ps_xstrdup(to);
}

/* Stores news of a track (the job at one tracker): the tracker's id for it, and a message. Called
 * on the thread of t->tracker. */
static void told(void *arg, const ps_track_news *news)
{
    ps_train_trackers *t = arg;

    pthread_mutex_lock(&t->lock);
    set(&t->runs[news->index].run_id, news->run_id);
    set(&t->runs[news->index].message, news->message);
    pthread_mutex_unlock(&t->lock);
}

ps_status ps_train_trackers_start(ps_train_trackers *t, const Psgd__V1__Job *job)
{
    ps_tracker_conf conf = {.logins = &t->logins,
                            .ca = getenv("MLFLOW_TRACKING_SERVER_CERT_PATH"),
                            .told = told,
                            .arg = t};
    Psgd__V1__Job run = *job;
    char id[300];
    ps_status st;

    if (job->spec->n_tracker == 0) {
        return ps_ok();
    }
    st = ps_tracker_logins_set(&t->logins, getenv("MLFLOW_TRACKING_TOKEN"),
                               getenv("MLFLOW_TRACKING_USERNAME"),
                               getenv("MLFLOW_TRACKING_PASSWORD"));
    pthread_mutex_init(&t->lock, NULL);
    t->count = job->spec->n_tracker;
    for (size_t i = 0; i < t->count; i++) {
        psgd__v1__tracker_run__init(&t->runs[i]);
        t->runs[i].tracker = job->spec->tracker[i];
        t->runs[i].run_id = ps_xstrdup("");
        t->runs[i].message = ps_xstrdup("");
        t->list[i] = &t->runs[i];
    }
    if (ps_is_ok(&st)) {
        st = ps_tracker_create(&conf, &t->tracker);
    }
    if (ps_is_ok(&st)) {
        snprintf(id, sizeof id, "%.250s-%" PRId64, job->id, ps_clock_wall_us() / 1000);
        run.id = id;
        st = ps_tracked_begin(&t->told, t->tracker, &run, NULL, 0);
    }
    return st;
}

void ps_train_trackers_progress(ps_train_trackers *t, const Psgd__V1__Job *job)
{
    if (t->tracker != NULL && job->progress != NULL) {
        ps_tracked_progress(&t->told, job->progress, false);
    }
}

void ps_train_trackers_result(ps_train_trackers *t, const Psgd__V1__Job *job)
{
    if (t->tracker != NULL) {
        ps_tracked_result(&t->told, NULL, job, 0, ps_clock_wall_us() / 1000);
    }
}

void ps_train_trackers_end(ps_train_trackers *t, const Psgd__V1__Job *job, const char *folder)
{
    if (t->tracker != NULL) {
        if (job->progress != NULL) {
            ps_tracked_progress(&t->told, job->progress, true);
        }
        ps_tracked_end(&t->told, job, folder);
    }
}

bool ps_train_trackers_is_done(const ps_train_trackers *t)
{
    return ps_tracker_left(t->tracker) == 0;
}

void ps_train_trackers_stop(ps_train_trackers *t, Psgd__V1__Job *job)
{
    bool is_done = ps_train_trackers_is_done(t);

    ps_tracker_destroy(t->tracker); /* ends its thread, which could still write to t->runs */
    t->tracker = NULL;
    for (size_t i = 0; i < t->count; i++) {
        if (!is_done && t->runs[i].message[0] == '\0') {
            set(&t->runs[i].message, t->runs[i].run_id[0] == '\0'
                                         ? "it did not answer"
                                         : "it may not have all, not even the end of the run");
        }
    }
    job->n_tracker_runs = t->count;
    job->tracker_runs = t->list;
}

void ps_train_trackers_fini(ps_train_trackers *t)
{
    ps_tracker_destroy(t->tracker);
    for (size_t i = 0; i < t->count; i++) {
        free(t->runs[i].run_id);
        free(t->runs[i].message);
    }
    if (t->count > 0) {
        pthread_mutex_destroy(&t->lock);
    }
    ps_tracker_logins_fini(&t->logins);
}
