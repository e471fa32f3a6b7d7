/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_impl.h - what is asked next for a track, and what an answer means. For common/tracker
 * only.
 *
 * The queue and the end are guarded by `lock`; the rest belongs to the tracker's thread once the
 * track has begun.
 */
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
    PS_TRACK_OVER /* nothing is left to send, or nothing is taken */
} ps_track_stage;

struct ps_track {
    ps_mlflow_job job;
    ps_tracker_url url;
    size_t index;
    char *note; /* NULL: none */
    ps_mlflow_params params;
    atomic_uint_fast64_t *dropped_of_all;
    void (*wake)(void *arg); /* has the thread look */
    void *wake_arg;

    pthread_mutex_t lock;
    ps_mlflow_metric *queue; /* (queue_cap) a ring */
    size_t queue_cap, queue_first, queue_count;
    uint64_t dropped;
    bool is_closed; /* the tracker takes nothing any more */
    bool is_ended;
    ps_mlflow_end how;
    int64_t end_ms;
    char *folder;
    char **files; /* (file_count) */
    size_t file_count;

    ps_track_stage stage;
    char experiment[PS_MLFLOW_ID_BYTES];
    ps_mlflow_run run;
    size_t params_at, params_asked;
    ps_mlflow_metric *batch; /* (batch_count) which are being sent */
    size_t batch_count;
    size_t file_at;
    uint64_t sequence, noted;               /* what the tracker has; what the file says */
    bool is_noted;                          /* the file is there */
    unsigned failures;                      /* in a row */
    int64_t due_us;                         /* nothing is asked before */
    int64_t ended_us;                       /* when the thread saw the end; 0: not yet */
    char message[PS_TRACKER_MESSAGE_BYTES]; /* as in ps_track_news */
    bool is_news;                           /* run.id or message */

    void *transfer; /* tracker.c's */
    ps_track *next;
};

typedef struct ps_track_request {
    const char *method; /* "GET", "POST" or "PUT" */
    char address[2 * PS_TRACKER_URL_BYTES];
    char *body; /* of POST; the caller frees it */
    FILE *file; /* of PUT; the caller closes it */
    uint64_t file_bytes;
} ps_track_request;

typedef struct ps_track_answer {
    const char *failure; /* why there is no answer; NULL: there is one */
    long http;
    const json_t *json; /* NULL: it has none */
    int64_t wait_s;     /* for which the tracker asks; 0: it does not */
} ps_track_answer;

/* Writes the next request. Returns false if there is none before due_us, or the track is over. */
bool ps_track_next(ps_track *track, int64_t now_us, ps_track_request *out);

/* Takes the answer to the last request. */
void ps_track_answered(ps_track *track, const ps_track_answer *answer, int64_t now_us);

/* Writes what the tracker has to the file of the track, if it is not there; removes the file when
 * the track is over. */
void ps_track_keep(ps_track *track);

/* Frees the track, without its file. */
void ps_track_free(ps_track *track);

#endif
