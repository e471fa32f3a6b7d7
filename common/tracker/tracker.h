/* SPDX-License-Identifier: Apache-2.0 */
/* tracker.h - sends parameters, metrics and files of jobs to trackers, on a thread of its own.
 *
 * A *track* is a job at one tracker. Its caller never waits: metrics go into a queue of
 * PS_TRACK_METRICS_MAX, and a tracker that is down or hangs costs the oldest of them, which are
 * counted. Each request has a deadline. What fails for a reason that may pass is asked again after
 * growing pauses, until PS_TRACK_PATIENCE_S after the end of the job.
 *
 * The run of a job is found again by a tag, so a process that is started again goes on with it. A
 * file for each track (`note`) says what the tracker has; it is removed when nothing is left to
 * send. All functions but ps_tracker_left and ps_tracker_dropped belong to one thread.
 */
#ifndef PS_COMMON_TRACKER_TRACKER_H
#define PS_COMMON_TRACKER_TRACKER_H

#include "common/tracker/mlflow.h"
#include "common/tracker/tracker_login.h"

enum {
    PS_TRACKS_MAX = 256,
    PS_TRACK_METRICS_MAX = 4096, /* that wait, of a track */
    PS_TRACK_PATIENCE_S = 86400
};

typedef struct ps_tracker ps_tracker;
typedef struct ps_track ps_track;

/* What became of a track. Texts are borrowed. */
typedef struct ps_track_news {
    const char *job_id;
    size_t index;        /* of the tracker in the job's specification */
    const char *run_id;  /* "": there is no run yet */
    const char *message; /* what is refused or dropped, said once; "": nothing */
} ps_track_news;

typedef struct ps_tracker_conf {
    const ps_tracker_logins *logins; /* borrowed, as `ca` is, until ps_tracker_destroy */
    const char *ca;   /* authorities for https, in PEM; NULL or "": those of the system */
    bool is_insecure; /* logins are sent without TLS, too */
    void (*told)(void *arg, const ps_track_news *news); /* on the tracker's thread */
    void *arg;
} ps_tracker_conf;

typedef struct ps_track_conf {
    ps_mlflow_job job; /* copied */
    size_t index;
    const char *url;    /* as in JobSpec.tracker */
    const json_t *spec; /* borrowed */
    const char *note;   /* path of its file; NULL: none */
    uint64_t sequence;  /* of the newest event whose metrics the tracker has; 0: none */
} ps_track_conf;

/* What is left to send when the job is over. */
typedef struct ps_track_end {
    ps_mlflow_end how;
    int64_t end_ms;
    const char *folder;       /* of the files */
    const char *const *files; /* (file_count) names in it, copied */
    size_t file_count;
} ps_track_end;

/* Returns OK if libcurl is there, else FAILED_PRECONDITION. Any thread. */
PS_MUST_USE ps_status ps_tracker_can_call(void);

/* Starts the thread. Fails with FAILED_PRECONDITION if libcurl is not there, with
 * RESOURCE_EXHAUSTED if there can be no thread. */
PS_MUST_USE ps_status ps_tracker_create(const ps_tracker_conf *conf, ps_tracker **out);

/* Ends all requests at once and the thread. Tracks are then invalid; their files stay. NULL is
 * allowed. */
void ps_tracker_destroy(ps_tracker *t);

/* Begins a track, which is valid until ps_track_end. Fails with RESOURCE_EXHAUSTED beyond
 * PS_TRACKS_MAX, with INVALID_ARGUMENT for a wrong URL. */
PS_MUST_USE ps_status ps_track_begin(ps_tracker *t, const ps_track_conf *conf, ps_track **out);

/* Queues metrics. Values that are not finite are left out. */
void ps_track_metrics(ps_track *track, const ps_mlflow_metric *metrics, size_t count);

/* Has the rest sent, and gives the track up. */
void ps_track_end_run(ps_track *track, const ps_track_end *end);

/* Returns how many tracks have something left to send, or were not ended. Any thread. */
size_t ps_tracker_left(const ps_tracker *t);

/* Returns how many values were dropped, of all tracks. Any thread. */
uint64_t ps_tracker_dropped(const ps_tracker *t);

/* Reads the number in the file of a track; 0 if there is none. */
uint64_t ps_track_read_note(const char *path);

#endif
