/* SPDX-License-Identifier: Apache-2.0 */
/* web_call.c - the calls of the page's requests, on the loop of calls. */
#include "services/coordinator/web/web_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/linked.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "psgd/v1/coordinator.pb-c.h"
#include "services/coordinator/domain/job_message.h"

#include <stdlib.h>
#include <string.h>

enum { EVENT_BYTES = 1 << 20, LISTED_JOBS = 200 };

static const int64_t beat_us = 1000000, call_us = 130 * 1000000LL, list_us = 5 * 1000000LL;

/* --- what both threads use --------------------------------------------------------- */

void ps_web_drop(ps_web_request *r)
{
    if (--r->holders > 0) {
        return;
    }
    if (r->message) {
        protobuf_c_message_free_unpacked(r->message, NULL);
    }
    if (r->body.len > 0) {
        explicit_bzero(r->body.data, r->body.len); /* the body of a log-in has a token */
    }
    explicit_bzero(r->token, sizeof r->token);
    for (size_t i = 0; i < PS_CURVE_PARTS; i++) {
        free(r->reports[i]);
    }
    ps_strbuf_fini(&r->body);
    ps_strbuf_fini(&r->out);
    free(r);
}

void ps_web_post(ps_web_request *r)
{
    if (!r->is_posted) {
        r->is_posted = true;
        ps_loop_post(r->web->loop, &r->posted);
    }
}

static void resume(ps_web_request *r)
{
    if (r->is_suspended) {
        r->is_suspended = false;
        r->web->http.resume_connection(r->connection);
    }
}

static unsigned http_status(ps_code code)
{
    switch ((int)code) {
    case PS_OK:
        return MHD_HTTP_OK;
    case PS_INVALID_ARGUMENT:
    case PS_FAILED_PRECONDITION:
    case PS_OUT_OF_RANGE:
        return MHD_HTTP_BAD_REQUEST;
    case PS_UNAUTHENTICATED:
        return MHD_HTTP_UNAUTHORIZED;
    case PS_PERMISSION_DENIED:
        return MHD_HTTP_FORBIDDEN;
    case PS_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case PS_ALREADY_EXISTS:
    case PS_ABORTED:
        return MHD_HTTP_CONFLICT;
    case PS_RESOURCE_EXHAUSTED:
        return MHD_HTTP_TOO_MANY_REQUESTS;
    case PS_UNAVAILABLE:
    case PS_CANCELLED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case PS_DEADLINE_EXCEEDED:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

json_t *ps_web_error_json(const ps_error *error, unsigned *http_code)
{
    json_t *meta = json_object(), *violations = json_array();

    *http_code = http_status(error->status.code);
    for (size_t i = 0; i < error->meta_count; i++) {
        json_object_set_new(meta, error->meta[i].key, json_string(error->meta[i].value));
    }
    for (size_t i = 0; i < error->violation_count; i++) {
        json_array_append_new(violations,
                              json_pack("{s:s, s:s}", "field", error->violations[i].field,
                                        "description", error->violations[i].text));
    }
    return json_pack("{s:{s:i, s:s, s:s, s:o, s:o}}", "error", "code", (int)error->status.code,
                     "reason", error->reason, "message", error->status.text, "metadata", meta,
                     "violations", violations);
}

/* Appends the JSON to the bytes that are to be sent, and frees it. */
static void put_json(ps_web_request *r, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15));

    ps_strbuf_puts(&r->out, text ? text : "{}");
    free(text);
    json_decref(json);
}

/* --- life of a call ---------------------------------------------------------------- */

/* Marks the answer as complete, resumes the connection, and forgets the request. */
static void end(ps_web_request *r)
{
    ps_web *web = r->web;

    PS_UNLINK(web->requests, r);
    pthread_mutex_lock(&web->mutex);
    r->is_begun = r->is_ended = true;
    resume(r);
    if (r->kind == PS_WEB_FILE) {
        web->files--;
    }
    if (!r->is_posted) { /* else ps_web_posted, which is still to come, drops the request */
        ps_web_drop(r);
        web->calls--;
        pthread_cond_signal(&web->idle);
    }
    pthread_mutex_unlock(&web->mutex);
}

static void fail(ps_web_request *r, const ps_error *error)
{
    json_t *json;
    unsigned code;

    pthread_mutex_lock(&r->web->mutex);
    json = ps_web_error_json(error, &code);
    if (!r->is_begun) {
        r->code = code;
        put_json(r, json);
    } else if (r->kind == PS_WEB_EVENTS) {
        ps_strbuf_puts(&r->out, "event: fault\ndata: ");
        put_json(r, json);
        ps_strbuf_puts(&r->out, "\n\n");
    } else {
        json_decref(json);
    }
    pthread_mutex_unlock(&r->web->mutex);
}

static void succeed(ps_web_request *r, json_t *json)
{
    pthread_mutex_lock(&r->web->mutex);
    r->code = MHD_HTTP_OK;
    put_json(r, json);
    pthread_mutex_unlock(&r->web->mutex);
}

void ps_web_answer_curves(ps_web_request *r)
{
    succeed(r,
            ps_curves_json(r->web->curves, ((const Psgd__V1__GetJobRequest *)r->message)->job_id));
    end(r);
}

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_web_request *r = arg;

    r->unary = NULL;
    if (reply && r->kind == PS_WEB_CURVES) {
        ps_web_take_job(r, ((const Psgd__V1__GetJobResponse *)reply)->job);
        return;
    }
    if (reply) {
        succeed(r, ps_pb_to_json(reply, PS_PB_TERSE));
    } else {
        fail(r, error);
    }
    end(r);
}

/* --- streams ------------------------------------------------------------------------ */

static void put_event(ps_web_request *r, const ProtobufCMessage *message)
{
    const Psgd__V1__WatchJobResponse *event = (const Psgd__V1__WatchJobResponse *)message;

    if (event->sequence > 0) {
        ps_strbuf_printf(&r->out, "id: %llu\n", (unsigned long long)event->sequence);
    }
    ps_strbuf_puts(&r->out, "data: ");
    put_json(r, ps_pb_to_json(message, PS_PB_TERSE));
    ps_strbuf_puts(&r->out, "\n\n");
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_web_request *r = arg;

    r->is_reading = false;
    pthread_mutex_lock(&r->web->mutex);
    if (!r->is_begun) {
        r->is_begun = true;
        r->code = MHD_HTTP_OK;
        if (r->kind == PS_WEB_EVENTS) {
            ps_strbuf_puts(&r->out, "retry: 1000\n\n");
        }
    }
    if (r->kind == PS_WEB_EVENTS) {
        put_event(r, head);
    } else {
        size_t n = ps_payload_len(payload);
        uint8_t *scratch = ps_xmalloc(n + 1);

        ps_strbuf_append(&r->out, ps_payload_view(payload, 0, n, scratch), n);
        free(scratch);
    }
    resume(r);
    pthread_mutex_unlock(&r->web->mutex);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_web_request *r = arg;

    r->stream = NULL;
    if (error->status.code != PS_OK) {
        fail(r, error);
    } else {
        pthread_mutex_lock(&r->web->mutex);
        r->code = r->is_begun ? r->code : MHD_HTTP_OK;
        if (r->kind == PS_WEB_EVENTS) {
            ps_strbuf_puts(&r->out, "event: end\ndata: {}\n\n");
        }
        pthread_mutex_unlock(&r->web->mutex);
    }
    end(r);
}

static const ps_stream_events stream_events = {.on_message = on_message, .on_end = on_end};

/* --- events from the HTTP thread --------------------------------------------------- */

static void begin(ps_web_request *r)
{
    ps_web *web = r->web;

    PS_LINK_FIRST(web->requests, r);
    ps_channel_bring(web->channel, r->token);
    if (r->kind == PS_WEB_UNARY || r->kind == PS_WEB_CURVES) {
        r->unary = ps_unary_start(web->channel, web->service->type, r->method->name, r->message,
                                  call_us, on_reply, r);
        return;
    }
    r->stream = ps_stream_open(web->channel, web->service->type, r->method->name, PS_NO_TIMEOUT,
                               EVENT_BYTES, &stream_events, r);
    ps_stream_send(r->stream, r->message, NULL, 0);
    ps_stream_half_close(r->stream);
    r->is_reading = true;
    ps_stream_read(r->stream);
}

static void cancel(ps_web_request *r)
{
    if (r->unary) {
        ps_unary_cancel(r->unary);
    } else if (r->stream) {
        ps_stream_cancel(r->stream);
    } else if (r->awaits_reports) {
        ps_web_answer_curves(r);
    }
}

void ps_web_posted(ps_event *event, bool ok)
{
    ps_web_request *r = PS_CONTAINER_OF(event, ps_web_request, posted);
    ps_web *web = r->web;
    bool is_ended, is_closed, wants_more, is_new = !r->unary && !r->stream && !r->awaits_reports;

    (void)ok; /* false only when the loop ends, which it does after all requests */
    pthread_mutex_lock(&web->mutex);
    r->is_posted = false;
    is_ended = r->is_ended;
    is_closed = r->is_closed;
    wants_more = r->wants_more;
    r->wants_more = false;
    if (is_ended) {
        ps_web_drop(r);
        web->calls--;
        pthread_cond_signal(&web->idle);
    }
    pthread_mutex_unlock(&web->mutex);
    if (is_ended) {
        return;
    }
    if (is_new) {
        begin(r);
        if (web->is_draining) {
            cancel(r);
        }
    } else if (is_closed) {
        cancel(r);
    } else if (wants_more && r->stream && !r->is_reading) {
        /* Not if is_reading: then a comment of ps_web_beat was sent, and a read is under way. */
        r->is_reading = true;
        ps_stream_read(r->stream);
    }
}

/* --- what happened before the page began to serve ---------------------------------- */

static void on_past(void *arg, const ProtobufCMessage *message, ps_payload *payload)
{
    ps_web *web = arg;
    const Psgd__V1__WatchJobResponse *event = (const Psgd__V1__WatchJobResponse *)message;

    (void)payload;
    if (event->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_PROGRESS) {
        ps_stream_cancel(web->past); /* progress comes after all stored events: the past is read */
        return;
    }
    if (event->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS && event->job &&
        event->time) {
        ps_curves_add(web->curves, event->job,
                      event->time->seconds * 1000000 + event->time->nanos / 1000);
    }
    ps_stream_read(web->past);
}

static void on_past_end(void *arg, const ps_error *error)
{
    (void)error; /* ignored, as the curve keeps what was read */
    ((ps_web *)arg)->past = NULL;
}

/* Begins the curve of a job with the progress in its stored METRICS events, one for each
 * evaluation. Reads them on the page's own channel, as no user has asked for them. */
static void read_past(ps_web *web, const char *job_id)
{
    static const ps_stream_events past_events = {.on_message = on_past, .on_end = on_past_end};
    Psgd__V1__WatchJobRequest request = PSGD__V1__WATCH_JOB_REQUEST__INIT;

    free(web->past_id);
    web->past_id = ps_xstrdup(job_id);
    request.job_id = web->past_id;
    web->past = ps_stream_open(web->self, web->service->type, "WatchJob", list_us, EVENT_BYTES,
                               &past_events, web);
    ps_stream_send(web->past, &request.base, NULL, 0);
    ps_stream_half_close(web->past);
    ps_stream_read(web->past);
}

/* Adds the job's present progress to its curve. If the job has no curve yet, adds nothing: begins
 * to read its past, unless that of another job is being read. A later beat adds the progress. */
static void take_present(ps_web *web, const Psgd__V1__Job *job)
{
    bool is_last_read = web->past_id && strcmp(web->past_id, job->id) == 0;

    if (is_last_read ? !web->past : ps_curves_has(web->curves, job->id)) {
        ps_curves_add(web->curves, job, ps_clock_wall_us());
    } else if (!web->past && job->progress && job->progress->step > 0) {
        read_past(web, job->id);
    }
}

/* --- the beat ------------------------------------------------------------------------ */

static void listed(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_web *web = arg;
    const Psgd__V1__ListJobsResponse *list = (const Psgd__V1__ListJobsResponse *)reply;

    (void)error; /* ignored, as the next beat lists the jobs again */
    web->list = NULL;
    for (size_t i = 0; list && !web->is_draining && i < list->n_jobs; i++) {
        take_present(web, list->jobs[i]);
    }
}

void ps_web_beat(ps_event *event, bool ok)
{
    ps_web *web = PS_CONTAINER_OF(event, ps_web, beat.event);
    Psgd__V1__ListJobsRequest request = PSGD__V1__LIST_JOBS_REQUEST__INIT;
    Psgd__V1__JobState running = PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
    static const unsigned quiet_beats = 10;

    if (!ok || web->is_draining) {
        return;
    }
    web->beats++;
    /* Every quiet_beats-th beat sends a comment on each idle stream of events. It keeps the client
     * from giving up, and shows whether the client is gone. */
    pthread_mutex_lock(&web->mutex);
    for (ps_web_request *r = web->requests; r && web->beats % quiet_beats == 0; r = r->next) {
        if (r->kind == PS_WEB_EVENTS && r->is_begun && r->is_suspended) {
            ps_strbuf_puts(&r->out, ":\n\n");
            resume(r);
        }
    }
    pthread_mutex_unlock(&web->mutex);
    if (!web->list) {
        request.page_size = LISTED_JOBS;
        request.n_states = 1;
        request.states = &running;
        web->list = ps_unary_start(web->self, web->service->type, "ListJobs", &request.base,
                                   list_us, listed, web);
    }
    ps_loop_after(web->loop, &web->beat, beat_us);
}

static void drain(void *arg)
{
    ps_web *web = arg;
    ps_web_request *next;

    web->is_draining = true;
    ps_loop_cancel(web->loop, &web->beat);
    for (ps_web_request *r = web->requests; r; r = next) {
        next = r->next;
        cancel(r);
    }
    if (web->list) {
        ps_unary_cancel(web->list);
    }
    if (web->past) {
        ps_stream_cancel(web->past);
    }
    if (web->report) {
        ps_stream_cancel(web->report);
    }
}

void ps_web_drain(ps_web *web)
{
    ps_loop_thread_run(web->thread, drain, web);
}
