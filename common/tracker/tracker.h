/* SPDX-License-Identifier: Apache-2.0 */
/* tracker.h - sends parameters, metrics and files of jobs to trackers, on a thread of its own.
 *
 * A *track* is a job at one tracker. Its caller never waits. Metrics go into a queue of
 * PS_TRACK_METRICS_MAX; if a tracker is down or does not answer, the oldest of them are dropped and
 * counted. Each request has a deadline. A request that fails for a reason that may pass is repeated
 * after growing pauses, until PS_TRACK_PATIENCE_S seconds after the end of the job; one with a file
 * only some times.
 *
 * The run of a job is found again by a tag, so a process that is started again goes on with it. A
 * file for each track (`note`) says up to which event the tracker has metrics; it is removed when
 * nothing is left to send. All functions are for one thread, except those that say "any thread". */
#ifndef PS_COMMON_TRACKER_TRACKER_H
#define PS_COMMON_TRACKER_TRACKER_H

#include "common/tracker/mlflow.h"
#include "common/tracker/tracker_login.h"

enum {
    PS_TRACKS_MAX = 256,
    PS_TRACK_METRICS_MAX = 4096, /* metrics of a track that wait, at most */
    PS_TRACK_PATIENCE_S = 86400
};

typedef struct ps_tracker ps_tracker;
typedef struct ps_track ps_track;

/* Something to report about a track. Texts are borrowed. */
typedef struct ps_track_news {
    const char *job_id;
    size_t index;        /* index of the tracker in the job's specification */
    const char *run_id;  /* "": there is no run yet */
    const char *message; /* what was refused or dropped, reported once; "": nothing */
} ps_track_news;

/* What a thread that sends is made from. */
typedef struct ps_tracker_conf {
    const ps_tracker_logins *logins; /* borrowed until ps_tracker_destroy, and so is `ca` */
    /* file with certificates of authorities for https, in PEM; NULL or "": the system's */
    const char *ca;
    bool is_insecure;                                   /* logins are also sent without TLS */
    void (*told)(void *arg, const ps_track_news *news); /* called on the tracker's thread */
    void *arg;
} ps_tracker_conf;

typedef struct ps_track_conf {
    ps_mlflow_job job; /* copied */
    size_t index;
    const char *url;    /* address of the tracker, as in JobSpec.tracker */
    const json_t *spec; /* borrowed */
    const char *note;   /* path of the track's file; NULL: none */
    /* number of the newest event whose metrics the tracker has already; 0: none */
    uint64_t sequence;
} ps_track_conf;

/* How and when the job has ended, and which files are to be sent. */
typedef struct ps_track_end {
    ps_mlflow_end how;
    int64_t end_ms;
    const char *folder;       /* folder of the files */
    const char *const *files; /* (file_count): names of the files in `folder`; copied */
    size_t file_count;
} ps_track_end;

/* Returns OK if libcurl can be loaded, else FAILED_PRECONDITION. Any thread. */
PS_MUST_USE ps_status ps_tracker_can_call(void);

/* Starts the thread. Returns FAILED_PRECONDITION if libcurl cannot be loaded, RESOURCE_EXHAUSTED if
 * no thread can be created. */
PS_MUST_USE ps_status ps_tracker_create(const ps_tracker_conf *conf, ps_tracker **out);

/* Aborts all requests and ends the thread. Tracks are then invalid; their files stay. NULL is
 * allowed. */
void ps_tracker_destroy(ps_tracker *t);

/* Begins a track, which is valid until ps_track_end_run. Returns RESOURCE_EXHAUSTED if there are
 * PS_TRACKS_MAX already, INVALID_ARGUMENT for a wrong URL. */
PS_MUST_USE ps_status ps_track_begin(ps_tracker *t, const ps_track_conf *conf, ps_track **out);

/* Queues metrics. Values that are not finite are left out. */
void ps_track_metrics(ps_track *track, const ps_mlflow_metric *metrics, size_t count);

/* Ends the track: the thread sends what is left. The caller must not use the track any more. */
void ps_track_end_run(ps_track *track, const ps_track_end *end);

/* Returns how many tracks have something left to send, or were not ended. Any thread. */
size_t ps_tracker_left(const ps_tracker *t);

/* Returns how many values of metrics were dropped, over all tracks. Any thread. */
uint64_t ps_tracker_dropped(const ps_tracker *t);

/* Returns the number of the newest event of which the tracker has the metrics, from the track's
 * file; 0 if there is none. Any thread. */
uint64_t ps_track_read_note(const char *path);

#endif
