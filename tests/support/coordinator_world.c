/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator_world.c - see coordinator_world.h. */
#include "tests/support/coordinator_world.h"

#include "common/base/container_of.h"
#include "common/base/document.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "common/rpc/process.h"
#include "common/rpc/serve.h"
#include "services/coordinator/domain/job_message.h"
#include "tests/support/patience.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t reply_us = PS_TEST_PATIENCE_S * INT64_C(1000000);

/* --- the sham role ------------------------------------------------------------- */

static ps_status prepare(void *state, ps_session *session)
{
    cw_node *n = state;

    n->session = session;
    return ps_ok();
}

static void finish_now(ps_event *event, bool ok)
{
    cw_node *n = PS_CONTAINER_OF(event, cw_node, finish.event);
    ps_status st = ps_ok();

    if (!ok || !n->is_running) {
        return;
    }
    n->is_running = false;
    ps_node_finished(n->node, &st);
}

static void run(void *state)
{
    cw_node *n = state;

    n->is_running = true;
    if (n->finishes) {
        ps_loop_after(n->w->s.loop, &n->finish, 0);
    }
}

static void release(void *state)
{
    cw_node *n = state;

    n->is_running = false;
    n->session = NULL;
    ps_loop_cancel(n->w->s.loop, &n->finish);
    ps_node_released(n->node);
}

static ps_buf *text_buf(const char *text)
{
    ps_buf *buf = ps_buf_create(strlen(text) + 1);

    buf->len = strlen(text);
    memcpy(buf->data, text, buf->len);
    return buf;
}

/* Registers the files of the node: of a worker a report, of a server the weights that it was given,
 * with 1 added to each. */
static ps_status collect(void *state)
{
    cw_node *n = state;
    char name[64], text[64];

    if (n->session->weights && n->id[0] == 'p') {
        ps_buf *buf = ps_buf_create(n->session->weight_count * sizeof(float) + 1);
        float *values = (float *)(void *)buf->data;

        for (size_t i = 0; i < n->session->weight_count; i++) {
            values[i] = n->session->weights[i] + 1;
        }
        buf->len = n->session->weight_count * sizeof(float);
        ps_node_keep_bytes(n->node, "weights.f32", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL,
                           buf);
        return ps_ok();
    }
    snprintf(name, sizeof name, "TR-%.20s-N(%u).csv", n->session->plan->spec->title,
             n->session->rank);
    snprintf(text, sizeof text, "step,loss\n1,0.%u\n", n->session->rank);
    ps_node_keep_bytes(n->node, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT,
                       text_buf(text));
    if (n->leaves_bad_file) {
        ps_node_keep_bytes(n->node, "summary.json", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT,
                           text_buf("{}"));
    }
    return n->cannot_collect ? ps_fail(PS_RESOURCE_EXHAUSTED, "no room for a file") : ps_ok();
}

static size_t progress(void *state, Psgd__V1__WorkerProgress ***list)
{
    cw_node *n = state;
    Psgd__V1__WorkerProgress *p = &n->progress;

    psgd__v1__worker_progress__metrics_entry__init(&n->metric);
    n->metric.key = (char *)"accuracy";
    n->metric.value = 0.5 + 0.25 * n->session->rank;
    n->metrics[0] = &n->metric;
    psgd__v1__worker_progress__init(p);
    p->rank = n->session->rank;
    p->total_steps = p->step = n->session->plan->total_steps;
    p->evaluations = 1;
    p->n_metrics = 1;
    p->metrics = n->metrics;
    p->bytes_up = 100;
    n->progresses[0] = p;
    *list = n->progresses;
    return 1;
}

static const ps_role_hooks worker_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER,
    .service = "sham-worker",
    .prepare = prepare,
    .run = run,
    .release = release,
    .collect = collect,
    .progress = progress,
};

static const ps_role_hooks pserver_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER,
    .service = "sham-pserver",
    .prepare = prepare,
    .run = run,
    .release = release,
    .collect = collect,
};

/* --- life ------------------------------------------------------------------------ */

static void start_coordinator(void *arg)
{
    coordinator_world *w = arg;
    ps_coordinator_conf conf = {
        .code = "admin", .data_dir = w->data_dir, .heartbeat_us = 30000, .lease_us = 3000000};
    char listen[64];
    ps_status st = ps_coordinator_create(w->s.loop, &conf, &w->c);

    if (ps_is_ok(&st)) {
        w->service = ps_coordinator_service(w->c);
        snprintf(listen, sizeof listen, "127.0.0.1:%d", w->port);
        st = ps_serve(w->s.loop, &w->service, 1, listen, &w->server);
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "start the coordinator: %s\n", st.text);
        abort();
    }
    w->port = ps_server_port(w->server);
    snprintf(w->address, sizeof w->address, "127.0.0.1:%d", w->port);
    st = ps_coordinator_open(w->c, w->address);
    assert_int_equal(st.code, PS_OK);
}

static void drain_coordinator(void *arg)
{
    coordinator_world *w = arg;

    ps_coordinator_drain(w->c);
    ps_server_stop(w->server, 0, &w->down.event);
}

static void join_helper(void *arg)
{
    coordinator_world *w = arg;

    ps_coordinator_stop(w->c);
}

/* Destroys the coordinator as soon as no attempt uses it. */
static void destroy_coordinator(void *arg)
{
    coordinator_world *w = arg;

    if (w->c->attempts == 0) {
        ps_coordinator_destroy(w->c);
        w->c = NULL;
    }
}

static void stop_coordinator(coordinator_world *w)
{
    side_run(&w->s, drain_coordinator, w);
    flag_wait(&w->down);
    side_run(&w->s, join_helper, w);
    do { /* each turn handles events that the node's helper thread has posted before */
        side_run(&w->s, destroy_coordinator, w);
    } while (w->c != NULL);
}

void cw_restart(coordinator_world *w)
{
    stop_coordinator(w);
    side_run(&w->s, start_coordinator, w);
}

static void start_node(void *arg)
{
    cw_node *n = arg;
    ps_node_conf conf = {.listen = "127.0.0.1:0",
                         .coordinator = n->w->address,
                         .node_id = n->id,
                         .data_dir = temp_dir_file(&n->w->dir, n->id),
                         .data_cache_bytes = UINT64_C(1) << 30};
    ps_status st =
        ps_node_start(n->w->s.loop, &conf, n->id[0] == 'w' ? &worker_hooks : &pserver_hooks, n,
                      NULL, 0, &n->node);

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "start %s: %s\n", n->id, st.text);
        abort();
    }
}

static void stop_node(void *arg)
{
    cw_node *n = arg;

    ps_node_stop(n->node, 0, 0, &n->down.event);
}

void cw_stop_node(coordinator_world *w, size_t index)
{
    cw_node *n = &w->nodes[index];

    if (!n->node) {
        return;
    }
    side_run(&w->s, stop_node, n);
    flag_wait(&n->down);
    n->node = NULL;
}

static void open_channel(void *arg)
{
    coordinator_world *w = arg;

    w->channel = ps_channel_create(w->s.loop, w->address);
}

static void close_channel(void *arg)
{
    ps_channel_destroy(((coordinator_world *)arg)->channel);
}

static void await_nodes(coordinator_world *w)
{
    Psgd__V1__ListNodesRequest q = PSGD__V1__LIST_NODES_REQUEST__INIT;
    size_t known = 0;

    /* asks until all nodes are registered; the test has a time-out */
    while (known < w->node_count) {
        ps_error error;
        Psgd__V1__ListNodesResponse *r =
            (Psgd__V1__ListNodesResponse *)cw_call(w, "ListNodes", &q.base, &error);

        assert_non_null(r);
        known = r->n_nodes;
        psgd__v1__list_nodes_response__free_unpacked(r, NULL);
    }
}

void cw_begin(coordinator_world *w, size_t workers, size_t pservers)
{
    memset(w, 0, sizeof *w);
    w->dir = temp_dir_create();
    snprintf(w->data_dir, sizeof w->data_dir, "%s", temp_dir_file(&w->dir, "coordinator"));
    flag_init(&w->down);
    side_start(&w->s);
    side_run(&w->s, start_coordinator, w);
    side_run(&w->s, open_channel, w);
    w->node_count = workers + pservers;
    for (size_t i = 0; i < w->node_count; i++) {
        cw_node *n = &w->nodes[i];

        n->w = w;
        n->finishes = true;
        n->finish.event.fire = finish_now;
        flag_init(&n->down);
        snprintf(n->id, sizeof n->id, "%c%zu", i < workers ? 'w' : 'p',
                 i < workers ? i : i - workers);
        side_run(&w->s, start_node, n);
    }
    await_nodes(w);
}

void cw_end(coordinator_world *w)
{
    for (size_t i = 0; i < w->node_count; i++) {
        cw_stop_node(w, i);
        flag_fini(&w->nodes[i].down);
    }
    stop_coordinator(w);
    side_run(&w->s, close_channel, w);
    side_stop(&w->s);
    flag_fini(&w->down);
    temp_dir_destroy(&w->dir);
}

/* --- calls ------------------------------------------------------------------------ */

typedef struct errand {
    ps_loop *loop;
    ps_channel *channel;
    /* address of the callee, if the call needs a channel of its own; else NULL */
    const char *address;
    const ProtobufCServiceDescriptor *type;
    const char *method;
    const ProtobufCMessage *request;
    ps_error *error;
    ProtobufCMessage *reply;
    flag done;
} errand;

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    errand *e = arg;

    *e->error = *error;
    e->reply = reply ? ps_message_copy(reply) : NULL;
    if (e->address) {
        ps_channel_destroy(e->channel);
    }
    flag_raise(&e->done);
}

static void start_call(void *arg)
{
    errand *e = arg;

    if (e->address) {
        e->channel = ps_channel_create(e->loop, e->address);
    }
    ps_unary_start(e->channel, e->type, e->method, e->request, reply_us, on_reply, e);
}

static ProtobufCMessage *call(coordinator_world *w, errand *e)
{
    e->loop = w->s.loop;
    flag_init(&e->done);
    side_run(&w->s, start_call, e);
    flag_wait(&e->done);
    flag_fini(&e->done);
    return e->reply;
}

ProtobufCMessage *cw_call(coordinator_world *w, const char *method, const ProtobufCMessage *request,
                          ps_error *error)
{
    errand e = {.channel = w->channel,
                .type = &psgd__v1__coordinator_service__descriptor,
                .method = method,
                .request = request,
                .error = error};

    return call(w, &e);
}

ProtobufCMessage *cw_call_node(coordinator_world *w, size_t index, const char *method,
                               const ProtobufCMessage *request, ps_error *error)
{
    errand e = {.address = ps_node_address(w->nodes[index].node),
                .type = &psgd__v1__node_service__descriptor,
                .method = method,
                .request = request,
                .error = error};

    return call(w, &e);
}

Psgd__V1__SubmitJobResponse *cw_try_submit(coordinator_world *w, const char *json,
                                           const char *request_id, ps_error *error)
{
    Psgd__V1__SubmitJobRequest q = PSGD__V1__SUBMIT_JOB_REQUEST__INIT;
    ProtobufCMessage *spec = NULL, *reply;
    ps_error bad = {0};
    json_t *tree = NULL;
    ps_status st = ps_document_parse(json, strlen(json), &tree);

    if (ps_is_ok(&st)) {
        st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &bad, &spec);
    }
    if (!ps_is_ok(&st)) {
        fail_msg("the test's spec: %s", st.text);
    }
    json_decref(tree);
    q.spec = (Psgd__V1__JobSpec *)spec;
    q.request_id = (char *)request_id;
    reply = cw_call(w, "SubmitJob", &q.base, error);
    protobuf_c_message_free_unpacked(spec, NULL);
    return (Psgd__V1__SubmitJobResponse *)reply;
}

void cw_submit(coordinator_world *w, const char *json, char id[96])
{
    ps_error error;
    Psgd__V1__SubmitJobResponse *r = cw_try_submit(w, json, "", &error);

    if (!r) {
        fail_msg("submit: %s", error.status.text);
    }
    snprintf(id, 96, "%s", r->job->id);
    psgd__v1__submit_job_response__free_unpacked(r, NULL);
}

Psgd__V1__Job *cw_get(coordinator_world *w, const char *id)
{
    Psgd__V1__GetJobRequest q = PSGD__V1__GET_JOB_REQUEST__INIT;
    Psgd__V1__GetJobResponse *r;
    Psgd__V1__Job *job;
    ps_error error;

    q.job_id = (char *)id;
    do { /* a connection that ends with the coordinator's restart may still be tried */
        r = (Psgd__V1__GetJobResponse *)cw_call(w, "GetJob", &q.base, &error);
    } while (!r && error.status.code == PS_UNAVAILABLE);
    if (!r) {
        fail_msg("get %s: %s", id, error.status.text);
    }
    job = r->job;
    r->job = NULL;
    psgd__v1__get_job_response__free_unpacked(r, NULL);
    return job;
}

/* --- streams ----------------------------------------------------------------------- */

typedef struct watch {
    coordinator_world *w;
    const char *method;
    const ProtobufCMessage *request;
    Psgd__V1__JobState until;
    cw_events *events;
    cw_reclaimed *files;
    ps_stream *stream;
    bool stopped;
    flag done;
} watch;

static void on_event(watch *s, const ProtobufCMessage *head)
{
    Psgd__V1__WatchJobResponse *event = (Psgd__V1__WatchJobResponse *)ps_message_copy(head);

    /* there is no room: replaces the last event, which is the one that counts */
    if (s->events->count == CW_EVENTS_MAX) {
        psgd__v1__watch_job_response__free_unpacked(s->events->items[CW_EVENTS_MAX - 1], NULL);
        s->events->count--;
    }
    s->events->items[s->events->count++] = event;
    s->stopped = event->job->state == s->until;
}

static void on_chunk(watch *s, const ProtobufCMessage *head, ps_payload *payload)
{
    cw_chunk *c = &s->files->chunks[s->files->count++];
    const uint8_t *bytes;

    c->head = (Psgd__V1__ReclaimLogsResponse *)ps_message_copy(head);
    c->n = ps_payload_len(payload);
    c->bytes = ps_xmalloc(c->n);
    bytes = ps_payload_view(payload, 0, c->n, c->bytes);
    if (bytes != c->bytes && c->n > 0) {
        memcpy(c->bytes, bytes, c->n);
    }
    s->stopped = s->files->count == CW_CHUNKS_MAX;
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    watch *s = arg;

    if (s->stopped) {
        return;
    }
    if (s->events) {
        on_event(s, head);
    } else {
        on_chunk(s, head, payload);
    }
    if (s->stopped) {
        ps_stream_cancel(s->stream);
    } else {
        ps_stream_read(s->stream);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    watch *s = arg;

    *(s->events ? &s->events->error : &s->files->error) = *error;
    if (s->stopped) {
        (s->events ? &s->events->error : &s->files->error)->status = ps_ok();
    }
    flag_raise(&s->done);
}

static void start_watch(void *arg)
{
    static const ps_stream_events events = {.on_message = on_message, .on_end = on_end};
    watch *s = arg;

    s->stream = ps_stream_open(s->w->channel, &psgd__v1__coordinator_service__descriptor, s->method,
                               reply_us, 1 << 20, &events, s);
    ps_stream_send(s->stream, s->request, NULL, 0);
    ps_stream_half_close(s->stream);
    ps_stream_read(s->stream);
}

static void follow(watch *s)
{
    flag_init(&s->done);
    side_run(&s->w->s, start_watch, s);
    flag_wait(&s->done);
    flag_fini(&s->done);
}

void cw_watch(coordinator_world *w, const char *id, uint64_t after, Psgd__V1__JobState until,
              cw_events *out)
{
    Psgd__V1__WatchJobRequest q = PSGD__V1__WATCH_JOB_REQUEST__INIT;
    watch s = {.w = w, .method = "WatchJob", .request = &q.base, .until = until, .events = out};

    memset(out, 0, sizeof *out);
    q.job_id = (char *)id;
    q.after_sequence = after;
    follow(&s);
}

void cw_events_fini(cw_events *events)
{
    for (size_t i = 0; i < events->count; i++) {
        psgd__v1__watch_job_response__free_unpacked(events->items[i], NULL);
    }
    events->count = 0;
}

Psgd__V1__JobState cw_await(coordinator_world *w, const char *id, Psgd__V1__JobState state)
{
    Psgd__V1__JobState last = PSGD__V1__JOB_STATE__JOB_STATE_UNSPECIFIED;
    cw_events events;

    cw_watch(w, id, 0, state, &events);
    if (events.count > 0) {
        last = events.items[events.count - 1]->job->state;
    }
    cw_events_fini(&events);
    return last;
}

void cw_reclaim(coordinator_world *w, const Psgd__V1__ReclaimLogsRequest *request,
                cw_reclaimed *out)
{
    watch s = {.w = w, .method = "ReclaimLogs", .request = &request->base, .files = out};

    memset(out, 0, sizeof *out);
    follow(&s);
}

void cw_reclaimed_fini(cw_reclaimed *r)
{
    for (size_t i = 0; i < r->count; i++) {
        psgd__v1__reclaim_logs_response__free_unpacked(r->chunks[i].head, NULL);
        free(r->chunks[i].bytes);
    }
    r->count = 0;
}

typedef struct ending {
    cw_node *n;
    ps_status result;
    bool was_running;
} ending;

static void end_run(void *arg)
{
    ending *e = arg;

    e->was_running = e->n->is_running;
    if (!e->was_running) {
        return;
    }
    e->n->is_running = false;
    ps_node_finished(e->n->node, &e->result);
}

void cw_finish(coordinator_world *w, size_t index, ps_status result)
{
    ending e = {.n = &w->nodes[index], .result = result};

    while (!e.was_running) { /* the job runs: so it will, in a turn or two of the loop */
        side_run(&w->s, end_run, &e);
    }
}
