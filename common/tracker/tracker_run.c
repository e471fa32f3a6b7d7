/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_run.c - see tracker.h: what is asked next for a track, and what an answer means. */
#include "common/tracker/tracker_impl.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE_FIRST = 64, NOTE_MAX_BYTES = 64 };

/* look_us: least time between two requests with metrics, until the job has ended. pause_us and
 * pause_max_us: the first and the longest pause after a failure, before a request is sent again.
 * wait_max_s: the longest pause that a tracker can ask for, in seconds. */
static const int64_t look_us = 1000000, pause_us = 500000, pause_max_us = 60000000,
                     wait_max_s = 300;

/* --- the queue ---------------------------------------------------------------------- */

/* Counts `count` values that the tracker will not get. Called with track->lock. */
static void drop(ps_track *track, uint64_t count)
{
    track->dropped += count;
    atomic_fetch_add(track->dropped_of_all, count);
}

static void grow_queue(ps_track *track)
{
    size_t cap = track->queue_cap > 0 ? 2 * track->queue_cap : QUEUE_FIRST;
    ps_mlflow_metric *queue = ps_xcalloc(cap, sizeof *queue);

    for (size_t i = 0; i < track->queue_count; i++) {
        queue[i] = track->queue[(track->queue_first + i) % track->queue_cap];
    }
    free(track->queue);
    track->queue = queue;
    track->queue_cap = cap;
    track->queue_first = 0;
}

void ps_track_metrics(ps_track *track, const ps_mlflow_metric *metrics, size_t count)
{
    pthread_mutex_lock(&track->lock);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(metrics[i].value)) {
            continue;
        }
        if (track->is_closed) {
            drop(track, 1);
            continue;
        }
        if (track->queue_count == track->queue_cap && track->queue_cap < PS_TRACK_METRICS_MAX) {
            grow_queue(track);
        }
        if (track->queue_count == PS_TRACK_METRICS_MAX) {
            track->queue_first = (track->queue_first + 1) % track->queue_cap;
            track->queue_count--;
            drop(track, 1);
        }
        track->queue[(track->queue_first + track->queue_count++) % track->queue_cap] = metrics[i];
    }
    pthread_mutex_unlock(&track->lock);
}

void ps_track_end_run(ps_track *track, const ps_track_end *end)
{
    void (*wake)(void *arg) = track->wake;
    void *arg = track->wake_arg;

    pthread_mutex_lock(&track->lock);
    track->how = end->how;
    track->end_ms = end->end_ms;
    track->folder = ps_xstrdup(end->folder);
    track->files = ps_xcalloc(end->file_count + 1, sizeof *track->files);
    for (size_t i = 0; i < end->file_count; i++) {
        track->files[i] = ps_xstrdup(end->files[i]);
    }
    track->file_count = end->file_count;
    track->is_ended = true;
    pthread_mutex_unlock(&track->lock); /* from now on the tracker's thread may free the track */
    wake(arg);
}

/* Moves the oldest metrics of the queue to track->batch, which is to be sent next, until it has
 * PS_MLFLOW_METRICS_MAX. Returns whether ps_track_end_run was called. */
static bool take_batch(ps_track *track)
{
    bool is_ended;

    pthread_mutex_lock(&track->lock);
    while (track->queue_count > 0 && track->batch_count < PS_MLFLOW_METRICS_MAX) {
        track->batch[track->batch_count++] = track->queue[track->queue_first];
        track->queue_first = (track->queue_first + 1) % track->queue_cap;
        track->queue_count--;
    }
    is_ended = track->is_ended;
    pthread_mutex_unlock(&track->lock);
    return is_ended;
}

/* --- what is said ------------------------------------------------------------------- */

/* Sets the track's message and writes it to the log: `what` is missing at the tracker, and why.
 * Does nothing if the track has a message already. */
static void say(ps_track *track, const char *what, const char *why)
{
    if (track->message[0] != '\0') {
        return;
    }
    snprintf(track->message, sizeof track->message, "%.60s: %.320s", what, why);
    track->is_news = true;
    ps_log_with(PS_LOG_WARN, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", track->job.id)), "%s: %s",
                track->url.base, track->message);
}

/* Ends the track and says why (say). All values that wait or are being sent are counted as dropped,
 * and so are further ones. */
static void close_track(ps_track *track, const char *what, const char *why)
{
    say(track, what, why);
    pthread_mutex_lock(&track->lock);
    track->is_closed = true;
    drop(track, track->queue_count + track->batch_count);
    track->queue_count = track->batch_count = 0;
    pthread_mutex_unlock(&track->lock);
    track->stage = PS_TRACK_OVER;
}

/* Sets the track's message, if it has none yet and values were dropped. Those that were dropped for
 * another reason have set it already, so the queue was full. */
static void look_for_drops(ps_track *track)
{
    char text[PS_TRACKER_MESSAGE_BYTES];
    uint64_t dropped;

    pthread_mutex_lock(&track->lock);
    dropped = track->dropped;
    pthread_mutex_unlock(&track->lock);
    if (dropped > 0 && track->message[0] == '\0') {
        snprintf(text, sizeof text, "the tracker has not taken them, and %d wait already",
                 PS_TRACK_METRICS_MAX);
        say(track, "values are dropped, the oldest first", text);
    }
}

/* --- requests ----------------------------------------------------------------------- */

static void ask(ps_track_request *out, const ps_track *track, const char *call, char *body)
{
    out->method = body != NULL ? "POST" : "GET";
    out->body = body;
    snprintf(out->address, sizeof out->address, "%s" PS_MLFLOW_CALLS "%s", track->url.base, call);
}

static bool ask_for_params(ps_track *track, ps_track_request *out)
{
    size_t left = track->params.count - track->params_at;

    if (left == 0) {
        track->stage = PS_TRACK_METRICS;
        return false;
    }
    track->params_asked = left < PS_MLFLOW_PARAMS_MAX ? left : PS_MLFLOW_PARAMS_MAX;
    ask(out, track, "runs/log-batch",
        ps_mlflow_log_params(track->run.id, &track->params.items[track->params_at],
                             track->params_asked));
    return true;
}

static bool ask_for_metrics(ps_track *track, int64_t now_us, ps_track_request *out)
{
    bool is_ended = track->batch_count == 0 && take_batch(track);

    look_for_drops(track);
    if (track->batch_count > 0) {
        ask(out, track, "runs/log-batch",
            ps_mlflow_log_metrics(track->run.id, track->batch, track->batch_count));
        return true;
    }
    if (is_ended) {
        track->stage = PS_TRACK_FILES;
    } else {
        track->due_us = now_us + look_us;
    }
    return false;
}

/* Writes the request that sends the next file. Leaves out a file that cannot be opened any more,
 * for instance because the job was deleted, and all files if the tracker takes none. Returns false,
 * in stage PS_TRACK_END, if no file is left. */
static bool ask_for_file(ps_track *track, ps_track_request *out)
{
    if (track->run.files[0] == '\0' && track->file_count > 0) {
        say(track, "files are not sent",
            "the tracker has them in a store of its own, without a "
            "proxy for files (mlflow server --serve-artifacts)");
        track->file_at = track->file_count;
    }
    for (; track->file_at < track->file_count; track->file_at++) {
        const char *name = track->files[track->file_at];
        struct stat facts;
        int fd = -1;
        ps_status st = ps_file_open_below(track->folder, name, &fd, &facts);

        if (!ps_is_ok(&st)) {
            continue;
        }
        out->file = fdopen(fd, "rb");
        if (out->file == NULL) {
            close(fd);
            continue;
        }
        out->method = "PUT";
        out->file_bytes = (uint64_t)facts.st_size;
        snprintf(out->address, sizeof out->address, "%s", track->run.files);
        for (const char *c = name; *c != '\0'; c++) {
            /* of the characters that ps_name_is_safe allows, a URL has to escape only these */
            bool is_other = *c == '(' || *c == ')';
            size_t n = strlen(out->address);

            snprintf(out->address + n, sizeof out->address - n, is_other ? "%%%02X" : "%c",
                     (unsigned char)*c);
        }
        return true;
    }
    track->stage = PS_TRACK_END;
    return false;
}

/* Writes the request of the track's stage. Returns false if there is none: then this call has moved
 * the track to its next stage, or has set due_us, before which nothing is to be sent. */
static bool ask_of_stage(ps_track *track, int64_t now_us, ps_track_request *out)
{
    char call[128];

    switch (track->stage) {
    case PS_TRACK_FIND_EXPERIMENT:
        snprintf(call, sizeof call, "experiments/get-by-name?experiment_name=%.64s",
                 /* needs no escapes: a title has letters, digits, ., _ and - only */
                 track->job.title);
        ask(out, track, call, NULL);
        return true;
    case PS_TRACK_MAKE_EXPERIMENT:
        ask(out, track, "experiments/create", ps_mlflow_create_experiment(&track->job));
        return true;
    case PS_TRACK_FIND_RUN:
        ask(out, track, "runs/search", ps_mlflow_search_run(&track->job, track->experiment));
        return true;
    case PS_TRACK_MAKE_RUN:
        ask(out, track, "runs/create", ps_mlflow_create_run(&track->job, track->experiment));
        return true;
    case PS_TRACK_PARAMS:
        return ask_for_params(track, out);
    case PS_TRACK_METRICS:
        return ask_for_metrics(track, now_us, out);
    case PS_TRACK_FILES:
        return ask_for_file(track, out);
    case PS_TRACK_END:
        ask(out, track, "runs/update", ps_mlflow_end_run(track->run.id, track->how, track->end_ms));
        return true;
    case PS_TRACK_OVER:
        break;
    }
    return false;
}

bool ps_track_next(ps_track *track, int64_t now_us, ps_track_request *out)
{
    *out = (ps_track_request){0};
    pthread_mutex_lock(&track->lock);
    if (track->is_ended && track->ended_us == 0) {
        track->ended_us = now_us;
        track->due_us = track->failures == 0 ? now_us : track->due_us;
    }
    pthread_mutex_unlock(&track->lock);
    while (track->stage != PS_TRACK_OVER && track->due_us <= now_us) {
        if (ask_of_stage(track, now_us, out)) {
            return true;
        }
    }
    return false;
}

/* --- answers ------------------------------------------------------------------------ */

static bool is_passing(const ps_track_answer *a)
{
    return a->failure != NULL || a->http == 408 || a->http == 429 || a->http >= 500;
}

/* Has the request repeated after a pause. The pause doubles with each failure in a row up to
 * pause_max_us, and is longer if the tracker asks for that, up to wait_max_s. Gives up a file at
 * its failure number PS_TRACKER_FILE_TRIES, and the track if the job ended more than
 * PS_TRACK_PATIENCE_S ago. */
static void ask_again(ps_track *track, const ps_track_answer *a, const char *why, int64_t now_us)
{
    unsigned shift = track->failures < 8 ? track->failures : 8;
    int64_t wait_us = pause_us << shift;
    int64_t asked_us = (a->wait_s < wait_max_s ? a->wait_s : wait_max_s) * 1000000;

    if (track->failures++ == 0) {
        ps_log_with(PS_LOG_WARN, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", track->job.id)),
                    "%s: %s; it is asked again", track->url.base, why);
    }
    if (track->stage == PS_TRACK_FILES && track->failures >= PS_TRACKER_FILE_TRIES) {
        say(track, "files are missing", why);
        track->file_at++;
        track->failures = 0;
        return;
    }
    if (track->ended_us > 0 && now_us - track->ended_us > PS_TRACK_PATIENCE_S * INT64_C(1000000)) {
        close_track(track, "given up a day after the end of the job", why);
        return;
    }
    wait_us = wait_us < pause_max_us ? wait_us : pause_max_us;
    /* takes up to a quarter off, so that tracks do not all ask at once */
    wait_us -= now_us % 1000 * (wait_us / 4000);
    track->due_us = now_us + (wait_us > asked_us ? wait_us : asked_us);
}

/* Handles the refusal of a request, which is then not repeated. Leaves out the parameters, metrics
 * or file of the request, and goes on. In any other stage the track ends. */
static void refused(ps_track *track, const char *why)
{
    switch (track->stage) {
    case PS_TRACK_PARAMS:
        say(track, "parameters are missing", why);
        track->params_at += track->params_asked;
        break;
    case PS_TRACK_METRICS:
        pthread_mutex_lock(&track->lock);
        drop(track, track->batch_count);
        pthread_mutex_unlock(&track->lock);
        track->batch_count = 0;
        say(track, "values are dropped", why);
        break;
    case PS_TRACK_FILES:
        say(track, "files are missing", why);
        track->file_at++;
        break;
    default:
        close_track(track, "nothing more is sent", why);
    }
}

static void has_run(ps_track *track)
{
    track->stage = PS_TRACK_PARAMS;
    track->is_news = true;
    ps_log_with(PS_LOG_INFO, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", track->job.id)),
                "%s: run %s", track->url.base, track->run.id);
}

/* Empties track->batch, which the tracker has accepted. Raises track->sequence to that of the
 * newest event in it. */
static void took_batch(ps_track *track)
{
    for (size_t i = 0; i < track->batch_count; i++) {
        if (track->batch[i].sequence > track->sequence) {
            track->sequence = track->batch[i].sequence;
        }
    }
    track->batch_count = 0;
}

static void accepted(ps_track *track, const ps_track_answer *a, int64_t now_us)
{
    switch (track->stage) {
    case PS_TRACK_FIND_EXPERIMENT:
    case PS_TRACK_MAKE_EXPERIMENT:
        if (!ps_mlflow_read_experiment(a->json, track->experiment)) {
            close_track(track, "nothing is sent", "the experiment is deleted, or has no id");
            return;
        }
        track->stage = PS_TRACK_FIND_RUN;
        break;
    case PS_TRACK_FIND_RUN:
        track->stage = PS_TRACK_MAKE_RUN;
        if (ps_mlflow_read_run(a->json, &track->url, &track->run)) {
            has_run(track);
        }
        break;
    case PS_TRACK_MAKE_RUN:
        if (!ps_mlflow_read_run(a->json, &track->url, &track->run)) {
            close_track(track, "nothing is sent", "its answer has no run");
            return;
        }
        has_run(track);
        break;
    case PS_TRACK_PARAMS:
        track->params_at += track->params_asked;
        break;
    case PS_TRACK_METRICS:
        took_batch(track);
        track->due_us = track->ended_us > 0 ? now_us : now_us + look_us;
        break;
    case PS_TRACK_FILES:
        track->file_at++;
        break;
    case PS_TRACK_END:
        track->stage = PS_TRACK_OVER;
        break;
    case PS_TRACK_OVER:
        break;
    }
}

void ps_track_answered(ps_track *track, const ps_track_answer *a, int64_t now_us)
{
    char why[256];

    if (a->failure != NULL) {
        snprintf(why, sizeof why, "it does not answer: %s", a->failure);
    } else {
        ps_mlflow_why(a->http, a->json, why, sizeof why);
    }
    if (is_passing(a)) {
        ask_again(track, a, why, now_us);
        return;
    }
    if (a->http >= 200 && a->http < 300) {
        if (track->failures > 0) {
            ps_log_with(PS_LOG_INFO, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", track->job.id)),
                        "%s: it answers again", track->url.base);
        }
        track->failures = 0;
        accepted(track, a, now_us);
        return;
    }
    if (track->stage == PS_TRACK_FIND_EXPERIMENT && a->http == 404) {
        track->stage = PS_TRACK_MAKE_EXPERIMENT;
    } else if (track->stage == PS_TRACK_MAKE_EXPERIMENT &&
               strcmp(ps_mlflow_error_code(a->json), "RESOURCE_ALREADY_EXISTS") == 0) {
        /* another client has made the experiment since it was not found: looks for it again */
        track->stage = PS_TRACK_FIND_EXPERIMENT;
        ask_again(track, a, why, now_us);
    } else {
        refused(track, why);
    }
}

/* --- the file ----------------------------------------------------------------------- */

void ps_track_keep(ps_track *track)
{
    char text[NOTE_MAX_BYTES];
    ps_status st;

    if (track->note == NULL) {
        return;
    }
    if (track->stage == PS_TRACK_OVER && track->ended_us > 0) {
        unlink(track->note);
        return;
    }
    if (track->is_noted && track->noted == track->sequence) {
        return;
    }
    snprintf(text, sizeof text, "%" PRIu64 "\n", track->sequence);
    st = ps_dir_make_for(track->note);
    if (ps_is_ok(&st)) {
        st = ps_file_write(track->note, text, strlen(text));
    }
    if (!ps_is_ok(&st) && !track->is_noted) {
        ps_log_with(PS_LOG_WARN, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", track->job.id)),
                    "after a restart, metrics may be sent twice: %s", st.text);
    }
    track->is_noted = true;
    track->noted = track->sequence;
}

uint64_t ps_track_read_note(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, NOTE_MAX_BYTES, &text, &n);
    uint64_t sequence = ps_is_ok(&st) ? strtoull(text, NULL, 10) : 0;

    free(text);
    return sequence;
}

void ps_track_free(ps_track *track)
{
    free(track->job.id);
    free(track->job.title);
    free(track->job.owner);
    free(track->note);
    ps_mlflow_params_fini(&track->params);
    free(track->queue);
    free(track->batch);
    free(track->folder);
    for (size_t i = 0; i < track->file_count; i++) {
        free(track->files[i]);
    }
    free(track->files);
    pthread_mutex_destroy(&track->lock);
    free(track);
}
