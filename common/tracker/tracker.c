/* SPDX-License-Identifier: Apache-2.0 */
/* tracker.c - see tracker.h: the thread and its requests. */
#include "common/tracker/tracker.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/tracker/curl.h"
#include "common/tracker/tracker_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MAX_BYTES = 1 << 20,
    LOOK_MS = 500,   /* longest time between two looks for requests to send, if there are tracks */
    IDLE_MS = 60000, /* longest time between two looks without tracks; wake() has the thread look at
                      * once */
    CONNECT_MS = 5000,
    DEADLINE_MS = 10000,   /* longest time of a request without a file */
    FILE_BYTES_A_MS = 100, /* a request with a file has a millisecond more for each so many bytes of
                            * it */
    /* a request is given up when no byte has moved for this time; only one with a file lasts so
     * long */
    STILL_S = 20,
    /* most connections to a host, so that a tracker that hangs does not use up all `connections` */
    CONNECTIONS_OF_HOST = 4
};
static const long connections = 64;

struct ps_tracker {
    const ps_curl *curl;
    ps_tracker_conf conf;
    pthread_t thread;
    CURLM *multi;
    struct curl_slist *headers, *file_headers;
    atomic_uint_fast64_t dropped;
    atomic_size_t count; /* tracks that were begun and are not freed yet */

    pthread_mutex_t lock;
    ps_track *arriving;
    bool is_stopping;

    ps_track *tracks; /* a list; used by the tracker's thread only */
};

/* A request that was sent and not yet answered, with the answer so far. */
typedef struct transfer {
    CURL *easy;
    ps_track_request request;
    ps_strbuf answer;
} transfer;

/* --- requests ----------------------------------------------------------------------- */

static size_t take_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    transfer *x = arg;

    (void)size; /* always 1 */
    if (x->answer.len + count > ANSWER_MAX_BYTES) {
        return 0;
    }
    ps_strbuf_append(&x->answer, bytes, count);
    return count;
}

static void set_login(ps_tracker *t, const ps_track *track, CURL *easy)
{
    const ps_tracker_login *login = ps_tracker_login_find(t->conf.logins, &track->url.address);

    if (login == NULL || (!track->url.is_tls && !t->conf.is_insecure &&
                          !ps_address_is_loopback(&track->url.address))) {
        return;
    }
    if (login->user[0] != '\0') {
        t->curl->easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        t->curl->easy_setopt(easy, CURLOPT_USERNAME, login->user);
        t->curl->easy_setopt(easy, CURLOPT_PASSWORD, login->secret);
    } else {
        t->curl->easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        t->curl->easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, login->secret);
    }
}

/* Sets what all requests have: bounds of time, which are longer for a file of file_bytes (0: none),
 * and no redirect or proxy, so that they reach no other address. */
static void set_bounds(ps_tracker *t, CURL *easy, uint64_t file_bytes)
{
    const ps_curl *curl = t->curl;
    uint64_t more_ms = file_bytes / FILE_BYTES_A_MS;

    curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl->easy_setopt(easy, CURLOPT_PROXY, "");
    curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                      (long)(DEADLINE_MS + (more_ms < INT32_MAX / 2 ? more_ms : INT32_MAX / 2)));
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STILL_S);
    curl->easy_setopt(easy, CURLOPT_USERAGENT, "psgd/" PS_VERSION);
    if (t->conf.ca != NULL && t->conf.ca[0] != '\0') {
        curl->easy_setopt(easy, CURLOPT_CAINFO, t->conf.ca);
    }
}

static void end_transfer(ps_tracker *t, ps_track *track)
{
    transfer *x = track->transfer;

    if (x == NULL) {
        return;
    }
    if (x->easy != NULL) {
        t->curl->multi_remove_handle(t->multi, x->easy);
        t->curl->easy_cleanup(x->easy);
    }
    if (x->request.file != NULL) {
        fclose(x->request.file);
    }
    free(x->request.body);
    ps_strbuf_fini(&x->answer);
    free(x);
    track->transfer = NULL;
}

static void begin_transfer(ps_tracker *t, ps_track *track, const ps_track_request *request)
{
    const ps_curl *curl = t->curl;
    transfer *x = ps_xcalloc(1, sizeof *x);
    ps_track_answer none = {.failure = "no memory"};

    x->request = *request;
    x->easy = curl->easy_init();
    track->transfer = x;
    if (x->easy == NULL) {
        end_transfer(t, track);
        ps_track_answered(track, &none, ps_clock_us());
        return;
    }
    curl->easy_setopt(x->easy, CURLOPT_URL, x->request.address);
    curl->easy_setopt(x->easy, CURLOPT_PRIVATE, track);
    curl->easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl->easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    curl->easy_setopt(x->easy, CURLOPT_HTTPHEADER,
                      request->file != NULL ? t->file_headers : t->headers);
    if (request->file != NULL) {
        curl->easy_setopt(x->easy, CURLOPT_UPLOAD, 1L);
        curl->easy_setopt(x->easy, CURLOPT_READDATA, request->file);
        curl->easy_setopt(x->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->file_bytes);
    } else if (request->body != NULL) {
        curl->easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->request.body);
    }
    set_bounds(t, x->easy, request->file_bytes);
    set_login(t, track, x->easy);
    curl->multi_add_handle(t->multi, x->easy);
}

/* Passes the answer or failure of a request to its track, and frees the request. */
static void finish(ps_tracker *t, const CURLMsg *msg)
{
    ps_track *track = NULL;
    ps_track_answer answer = {0};
    curl_off_t wait_s = 0;
    transfer *x;
    json_t *json;

    t->curl->easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &track);
    t->curl->easy_getinfo(msg->easy_handle, CURLINFO_RESPONSE_CODE, &answer.http);
    t->curl->easy_getinfo(msg->easy_handle, CURLINFO_RETRY_AFTER, &wait_s);
    answer.failure = msg->data.result == CURLE_OK ? NULL : t->curl->easy_strerror(msg->data.result);
    answer.wait_s = wait_s > 0 ? wait_s : 0;
    x = track->transfer;
    json = json_loadb(ps_strbuf_text(&x->answer), x->answer.len, 0, NULL);
    answer.json = json;
    ps_track_answered(track, &answer, ps_clock_us());
    json_decref(json);
    end_transfer(t, track);
}

/* --- the thread --------------------------------------------------------------------- */

static void tell(ps_tracker *t, ps_track *track)
{
    ps_track_news news = {track->job.id, track->index, track->run.id, track->message};

    if (track->is_news) {
        track->is_news = false;
        t->conf.told(t->conf.arg, &news);
    }
}

static void forget(ps_tracker *t, ps_track *track)
{
    end_transfer(t, track);
    atomic_fetch_sub(&t->count, 1);
    ps_track_free(track);
}

/* Moves the tracks that were begun since the last call to the thread's own list. Returns whether
 * the thread is to end. */
static bool take_arriving(ps_tracker *t)
{
    bool is_stopping;

    pthread_mutex_lock(&t->lock);
    while (t->arriving != NULL) {
        ps_track *track = t->arriving;

        t->arriving = track->next;
        track->next = t->tracks;
        t->tracks = track;
    }
    is_stopping = t->is_stopping;
    pthread_mutex_unlock(&t->lock);
    return is_stopping;
}

/* Returns whether the track can be freed: ps_track_end_run was called, nothing is left to send. */
static bool is_gone(ps_track *track)
{
    bool is_ended;

    pthread_mutex_lock(&track->lock);
    is_ended = track->is_ended;
    pthread_mutex_unlock(&track->lock);
    return is_ended && track->stage == PS_TRACK_OVER;
}

/* Goes through the tracks: sends the next request of each that waits for no answer, passes news on,
 * keeps the files of tracks (ps_track_keep), and frees the tracks that are gone. */
static void look(ps_tracker *t)
{
    int64_t now_us = ps_clock_us();
    ps_track_request request;

    for (ps_track **at = &t->tracks; *at != NULL;) {
        ps_track *track = *at;

        if (track->transfer == NULL && ps_track_next(track, now_us, &request)) {
            begin_transfer(t, track, &request);
        }
        tell(t, track);
        ps_track_keep(track);
        if (track->transfer == NULL && is_gone(track)) {
            if (track->dropped > 0) {
                ps_log_with(PS_LOG_WARN, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", track->job.id)),
                            "%s: %" PRIu64 " values were dropped", track->url.base, track->dropped);
            }
            *at = track->next;
            forget(t, track);
        } else {
            at = &track->next;
        }
    }
}

static void *run(void *arg)
{
    ps_tracker *t = arg;
    int running, left;

    while (!take_arriving(t)) {
        CURLMsg *msg;

        look(t);
        t->curl->multi_perform(t->multi, &running);
        while ((msg = t->curl->multi_info_read(t->multi, &left)) != NULL) {
            if (msg->msg == CURLMSG_DONE) {
                finish(t, msg);
                /* makes multi_poll return at once, so that look() sends the next request of the
                 * track */
                t->curl->multi_wakeup(t->multi);
            }
        }
        t->curl->multi_poll(t->multi, NULL, 0, t->tracks != NULL ? LOOK_MS : IDLE_MS, NULL);
    }
    while (t->tracks != NULL) {
        ps_track *track = t->tracks;

        t->tracks = track->next;
        forget(t, track);
    }
    return NULL;
}

static void wake(void *arg)
{
    const ps_tracker *t = arg;

    t->curl->multi_wakeup(t->multi);
}

/* --- life --------------------------------------------------------------------------- */

static void free_tracker(ps_tracker *t)
{
    if (t->multi != NULL) {
        t->curl->multi_cleanup(t->multi);
    }
    if (t->headers != NULL) {
        t->curl->slist_free_all(t->headers);
        t->curl->slist_free_all(t->file_headers);
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

ps_status ps_tracker_can_call(void)
{
    const ps_curl *curl;

    return ps_curl_load(&curl);
}

/* Returns the headers of requests with content of `type`, a line "Content-Type: ...". The empty
 * "Expect:" keeps libcurl from sending "Expect: 100-continue" and waiting for the answer, which
 * costs a second at some servers. */
static struct curl_slist *headers(const ps_curl *curl, const char *type)
{
    return curl->slist_append(curl->slist_append(NULL, type), "Expect:");
}

ps_status ps_tracker_create(const ps_tracker_conf *conf, ps_tracker **out)
{
    ps_tracker *t = ps_xcalloc(1, sizeof *t);
    ps_status st = ps_curl_load(&t->curl);

    t->conf = *conf;
    pthread_mutex_init(&t->lock, NULL);
    if (ps_is_ok(&st)) {
        t->multi = t->curl->multi_init();
        t->headers = headers(t->curl, "Content-Type: application/json");
        t->file_headers = headers(t->curl, "Content-Type: application/octet-stream");
        t->curl->multi_setopt(t->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)CONNECTIONS_OF_HOST);
        t->curl->multi_setopt(t->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
        if (pthread_create(&t->thread, NULL, run, t) != 0) {
            st = ps_fail(PS_RESOURCE_EXHAUSTED, "trackers: no thread can be started");
        }
    }
    if (!ps_is_ok(&st)) {
        free_tracker(t);
        return st;
    }
    *out = t;
    return ps_ok();
}

void ps_tracker_destroy(ps_tracker *t)
{
    if (t == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->is_stopping = true;
    pthread_mutex_unlock(&t->lock);
    wake(t);
    pthread_join(t->thread, NULL);
    free_tracker(t);
}

ps_status ps_track_begin(ps_tracker *t, const ps_track_conf *conf, ps_track **out)
{
    ps_tracker_url url;
    ps_status st = ps_tracker_url_parse(conf->url, &url);
    ps_track *track;

    if (ps_is_ok(&st) && atomic_load(&t->count) >= PS_TRACKS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "%d jobs are sent to trackers already", PS_TRACKS_MAX);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    track = ps_xcalloc(1, sizeof *track);
    track->job = (ps_mlflow_job){.id = ps_xstrdup(conf->job.id),
                                 .title = ps_xstrdup(conf->job.title),
                                 .owner = ps_xstrdup(conf->job.owner),
                                 .start_ms = conf->job.start_ms};
    track->url = url;
    track->index = conf->index;
    track->note = conf->note != NULL ? ps_xstrdup(conf->note) : NULL;
    ps_mlflow_params_of(conf->spec, &track->params);
    track->batch = ps_xcalloc(PS_MLFLOW_METRICS_MAX, sizeof *track->batch);
    track->sequence = conf->sequence;
    track->dropped_of_all = &t->dropped;
    track->wake = wake;
    track->wake_arg = t;
    pthread_mutex_init(&track->lock, NULL);
    atomic_fetch_add(&t->count, 1);
    pthread_mutex_lock(&t->lock);
    track->next = t->arriving;
    t->arriving = track;
    pthread_mutex_unlock(&t->lock);
    wake(t);
    *out = track;
    return st;
}

size_t ps_tracker_left(const ps_tracker *t)
{
    return t != NULL ? atomic_load(&t->count) : 0;
}

uint64_t ps_tracker_dropped(const ps_tracker *t)
{
    return t != NULL ? atomic_load(&t->dropped) : 0;
}
