/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_impl.h - decides what is requested next for a track, and what an answer means. For
 * common/tracker only.
 *
 * `lock` guards the queue and what ps_track_end_run sets. The rest belongs to the tracker's thread
 * once the track has begun. */
#ifndef PS_COMMON_TRACKER_TRACKER_IMPL_H
#define PS_COMMON_TRACKER_TRACKER_IMPL_H

#include "common/base/strbuf.h"
#include "common/tracker/tracker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { PS_TRACKER_FILE_TRIES = 6, PS_TRACKER_MESSAGE_BYTES = 400 };

typedef enum ps_track_stage {
    PS_TRACK_FIND_EXPERIMENT,
    PS_TRACK_MAKE_EXPERIMENT,
    PS_TRACK_FIND_RUN,
    PS_TRACK_MAKE_RUN,
    PS_TRACK_PARAMS,
    PS_TRACK_METRICS,
    PS_TRACK_FILES,
    PS_TRACK_END,
    PS_TRACK_OVER /* nothing is left to send, or the tracker accepts nothing */
} ps_track_stage;

struct ps_track {
    ps_mlflow_job job;
    ps_tracker_url url;
    size_t index;
    char *note; /* path of the track's file; NULL: none */
    ps_mlflow_params params;
    atomic_uint_fast64_t *dropped_of_all; /* values dropped, over all tracks */
    void (*wake)(void *arg);              /* makes the thread look at the track */
    void *wake_arg;

    pthread_mutex_t lock;
    ps_mlflow_metric *queue; /* (queue_cap): a ring of metrics */
    size_t queue_cap, queue_first, queue_count;
    uint64_t dropped;
    bool is_closed; /* the tracker accepts nothing any more */
    bool is_ended;  /* ps_track_end_run was called */
    ps_mlflow_end how;
    int64_t end_ms;
    char *folder;
    char **files; /* (file_count) */
    size_t file_count;

    ps_track_stage stage;
    char experiment[PS_MLFLOW_ID_BYTES];
    ps_mlflow_run run;
    size_t params_at, params_asked;
    ps_mlflow_metric *batch; /* (batch_count): the metrics that are being sent */
    size_t batch_count;
    size_t file_at;
    /* number of the newest event whose metrics the tracker has; and the number that the file has */
    uint64_t sequence, noted;
    bool is_noted;     /* the track's file exists */
    unsigned failures; /* failures in a row */
    /* monotonic microseconds before which nothing is requested */
    int64_t due_us;
    /* monotonic microseconds at which the thread noticed the end; 0: not yet */
    int64_t ended_us;
    char message[PS_TRACKER_MESSAGE_BYTES]; /* message of ps_track_news */
    bool is_news;                           /* run.id or `message` has to be reported */

    void *transfer; /* used by tracker.c */
    ps_track *next;
};

typedef struct ps_track_request {
    const char *method; /* "GET", "POST" or "PUT" */
    char address[2 * PS_TRACKER_URL_BYTES];
    char *body; /* body of a POST; the caller frees it */
    FILE *file; /* the file that a PUT sends; the caller closes it */
    uint64_t file_bytes;
} ps_track_request;

typedef struct ps_track_answer {
    const char *failure; /* why no answer came; NULL: an answer came */
    long http;
    const json_t *json; /* body of the answer; NULL: it has none */
    int64_t wait_s;     /* seconds that the tracker asks to wait; 0: it does not ask */
} ps_track_answer;

/* Writes the next request to *out. Returns false if nothing is to be requested now, because of
 * due_us or because the track is over. */
bool ps_track_next(ps_track *track, int64_t now_us, ps_track_request *out);

/* Takes the answer to the last request. */
void ps_track_answered(ps_track *track, const ps_track_answer *answer, int64_t now_us);

/* Writes to the track's file what the tracker has, unless the file says so already. Removes the
 * file when the track is over. */
void ps_track_keep(ps_track *track);

/* Frees the track; its file stays. */
void ps_track_free(ps_track *track);

#endif
