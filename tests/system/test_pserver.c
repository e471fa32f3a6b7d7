/* SPDX-License-Identifier: Apache-2.0 */
/* test_pserver.c - a parameter server as a worker sees it: streams, their errors,
 * repetitions, and the end. */
#include "services/pserver/pserver.h"

#include "common/base/xalloc.h"
#include "tests/support/node_world.h"
#include "tests/support/patience.h"

#include "psgd/v1/parameter.pb-c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two workers, 4 slices, 3 steps, w -= 0.5 * mean. */
static const char *const two_workers =
    "{\"workers\":2,\"data\":{\"train_limit\":384,\"test_limit\":64},\"epochs\":1,"
    "\"model\":{\"widths\":[4]},\"optimizer\":{\"rule\":{\"name\":\"sgd\",\"params\":{\"lr\":0.5}}}"
    "}";

typedef struct server {
    node_world w;
    ps_pserver *pserver;
    ps_plan *plan;
    float *weights; /* initial */
} server;

static void tell_node(void *arg)
{
    server *s = arg;

    ps_pserver_set_node(s->pserver, s->w.node);
}

static void server_begin(server *s, const char *json, uint64_t drop_ack)
{
    ps_service service[PS_PSERVER_SERVICES_MAX];
    ps_status st;

    memset(s, 0, sizeof *s);
    st = ps_pserver_create(NULL, 1, drop_ack, false, &s->pserver);
    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_pserver_services(s->pserver, service), 1 + PS_THREADS_MAX);
    nw_begin(&s->w, &ps_pserver_hooks, s->pserver, service, 1, NULL);
    nw_run(&s->w, tell_node, s);
    s->plan = nw_plan(json);
    s->weights = nw_weights(s->plan);
}

static void server_end(server *s)
{
    nw_end(&s->w);
    ps_pserver_destroy(s->pserver);
    ps_plan_destroy(s->plan);
    free(s->weights);
}

static void prepare(server *s)
{
    nw_packages p =
        nw_packages_of(s->plan, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER, 0, "job-1", 1, s->weights);
    nw_precommit_result result;
    ps_error error;

    assert_true(nw_can_commit(&s->w, "job-1", 1, 0, PS_TEST_PATIENCE_S * 1000, &error));
    nw_precommit(&s->w, &p, &result);
    assert_string_equal(result.error.status.text, "");
}

static bool is_running(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING;
}
static bool is_finished(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED;
}

static void start(server *s)
{
    ps_error error;

    prepare(s);
    nw_do_commit(&s->w, "job-1", 1, &error);
    nw_await(&s->w, is_running, "RUNNING");
}

/* --- streams --------------------------------------------------------------------- */

/* A stream of a worker; what came is under the world's mutex. */
typedef struct worker_stream {
    server *s;
    ps_stream *stream;
    const char *method;
    uint32_t rank, attempt, limit;
    uint64_t incarnation, layout_hash;
    const char *job_id;
    bool has_begun, leaves_identity, does_not_read;
    /* of a push under way, for the loop's thread */
    uint64_t clock;
    uint32_t block, first, count; /* slices */
    float value;
    int spoil; /* see push_on_loop */
    /* what came */
    bool is_sent, is_over;
    ps_error error;
    unsigned acks, answers;
    uint64_t last_clock;
    size_t slices_in;
    float *weights; /* (param_count), as pulled */
} worker_stream;

static worker_stream *watched; /* of the predicate */
static unsigned wanted;

static void on_sent(void *arg)
{
    worker_stream *ws = arg;

    pthread_mutex_lock(&ws->s->w.mutex);
    ws->is_sent = true;
    nw_changed(&ws->s->w);
    pthread_mutex_unlock(&ws->s->w.mutex);
}

static void on_end(void *arg, const ps_error *error)
{
    worker_stream *ws = arg;

    pthread_mutex_lock(&ws->s->w.mutex);
    ws->error = *error;
    ws->stream = NULL;
    ws->is_over = true;
    nw_changed(&ws->s->w);
    pthread_mutex_unlock(&ws->s->w.mutex);
}

static void on_ack(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PushGradientResponse *ack = (const Psgd__V1__PushGradientResponse *)head;
    worker_stream *ws = arg;

    (void)payload;
    pthread_mutex_lock(&ws->s->w.mutex);
    ws->last_clock = ack->clock;
    ws->acks++;
    nw_changed(&ws->s->w);
    pthread_mutex_unlock(&ws->s->w.mutex);
    ps_stream_read(ws->stream);
}

static void on_weights(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PullWeightsResponse *answer = (const Psgd__V1__PullWeightsResponse *)head;
    worker_stream *ws = arg;
    size_t at = 0;
    static uint8_t scratch[65536];

    pthread_mutex_lock(&ws->s->w.mutex);
    ws->last_clock = answer->clock;
    ws->answers++;
    for (size_t i = 0; i < answer->n_slices; i++) {
        const Psgd__V1__Encoding *e = answer->slices[i];
        const ps_slice *slice = &ws->s->plan->layout.slices[e->slice];
        ps_status st = ps_codec_decode(
            NULL, e,
            e->payload_bytes > 0 ? ps_payload_view(payload, at, e->payload_bytes, scratch) : NULL,
            e->payload_bytes, PS_INTO_SET, ws->weights + slice->at, slice->n);

        if (!ps_is_ok(&st)) {
            abort();
        }
        at += e->payload_bytes;
        ws->slices_in++;
    }
    nw_changed(&ws->s->w);
    pthread_mutex_unlock(&ws->s->w.mutex);
    ps_stream_read(ws->stream);
}

static void open_stream(void *arg)
{
    static const ps_stream_events push_events = {on_ack, on_sent, on_end},
                                  pull_events = {on_weights, on_sent, on_end};
    worker_stream *ws = arg;
    bool is_push = strcmp(ws->method, "PushGradient") == 0;

    ws->stream =
        ps_stream_open(ws->s->w.channel, &psgd__v1__parameter_service__descriptor, ws->method,
                       NW_REPLY_US, 1 << 20, is_push ? &push_events : &pull_events, ws);
    if (!ws->does_not_read) {
        ps_stream_read(ws->stream);
    }
}

static void stream_set(worker_stream *ws, server *s, const char *method, uint32_t rank)
{
    memset(ws, 0, sizeof *ws);
    ws->s = s;
    ws->method = method;
    ws->rank = rank;
    ws->attempt = 1;
    ws->incarnation = 100;
    ws->layout_hash = s->plan->layout.hash;
    ws->job_id = "job-1";
    ws->weights = ps_xcalloc(s->plan->layout.param_count, sizeof(float));
}

static void stream_begin(worker_stream *ws, server *s, const char *method, uint32_t rank)
{
    stream_set(ws, s, method, rank);
    nw_run(&s->w, open_stream, ws);
}

static void read_stream(void *arg)
{
    ps_stream_read(((worker_stream *)arg)->stream);
}

static void cancel_stream(void *arg)
{
    worker_stream *ws = arg;

    if (ws->stream != NULL) {
        ps_stream_cancel(ws->stream);
    }
}

static bool stream_is_over(node_world *w)
{
    (void)w;
    return watched->is_over;
}
static bool stream_is_sent(node_world *w)
{
    (void)w;
    return watched->is_sent || watched->is_over;
}
static bool has_acks(node_world *w)
{
    (void)w;
    return watched->acks >= wanted || watched->is_over;
}
static bool has_slices(node_world *w)
{
    (void)w;
    return watched->slices_in >= wanted || watched->is_over;
}

static void stream_await_end(worker_stream *ws)
{
    watched = ws;
    nw_await(&ws->s->w, stream_is_over, "the end of a stream");
}

static void stream_end(worker_stream *ws)
{
    nw_run(&ws->s->w, cancel_stream, ws);
    stream_await_end(ws);
    free(ws->weights);
}

static void stream_await_acks(worker_stream *ws, unsigned count)
{
    watched = ws;
    wanted = count;
    nw_await(&ws->s->w, has_acks, "an acknowledgement");
    assert_true(ws->acks >= count);
}

static void stream_await_slices(worker_stream *ws, unsigned count)
{
    watched = ws;
    wanted = count;
    nw_await(&ws->s->w, has_slices, "weights");
    if (ws->is_over) {
        fail_msg("the pull ended: %s", ws->error.status.text);
    }
}

static void stream_await_sent(worker_stream *ws)
{
    watched = ws;
    nw_await(&ws->s->w, stream_is_sent, "a message to be out");
    pthread_mutex_lock(&ws->s->w.mutex);
    ws->is_sent = false;
    pthread_mutex_unlock(&ws->s->w.mutex);
}

/* What may be wrong with a push. */
enum { FINE, SHORT_PAYLOAD, LONG_PAYLOAD, NO_SUCH_SLICE, WRONG_CODEC, LIES_ABOUT_BYTES };

static void identify(const worker_stream *ws, Psgd__V1__WorkerIdentity *who)
{
    psgd__v1__worker_identity__init(who);
    who->job_id = (char *)ws->job_id;
    who->rank = ws->rank;
    who->incarnation = ws->incarnation;
    who->layout_hash = ws->layout_hash;
}

/* Slices [first, first + count), every value the same. */
static void push_on_loop(void *arg)
{
    Psgd__V1__PushGradientRequest request = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT;
    Psgd__V1__WorkerIdentity who;
    worker_stream *ws = arg;
    const ps_codec *codec = ps_codec_find(ws->spoil == WRONG_CODEC ? "f16" : "f32");
    ps_params params = ps_params_default(codec->params);
    ps_encoding heads[8];
    Psgd__V1__Encoding *list[8];
    float values[PS_SLICE_VALUES];
    uint8_t *bytes = ps_xmalloc(1 << 18);
    ps_piece piece = {.data = bytes};

    for (size_t i = 0; i < PS_SLICE_VALUES; i++) {
        values[i] = ws->value;
    }
    for (uint32_t i = 0; i < ws->count; i++) {
        const ps_slice *slice = &ws->s->plan->layout.slices[ws->first + i];

        ps_codec_encode(codec, &params, 1, slice->index, values, slice->n, bytes + piece.len,
                        &heads[i]);
        piece.len += heads[i].msg.payload_bytes;
        list[i] = &heads[i].msg;
    }
    if (ws->spoil == SHORT_PAYLOAD) {
        piece.len -= 4;
    } else if (ws->spoil == LONG_PAYLOAD) {
        memset(bytes + piece.len, 0, 4);
        piece.len += 4;
    } else if (ws->spoil == NO_SUCH_SLICE) {
        list[0]->slice = 1000;
    } else if (ws->spoil == LIES_ABOUT_BYTES) {
        list[0]->payload_bytes = UINT32_MAX;
    }
    if (!ws->has_begun && !ws->leaves_identity) {
        identify(ws, &who);
        request.worker = &who;
    }
    ws->has_begun = true;
    request.attempt = ws->attempt;
    request.clock = ws->clock;
    request.block = ws->block;
    request.slices = list;
    request.n_slices = ws->count;
    ps_stream_send(ws->stream, &request.base, &piece, piece.len > 0);
    free(bytes);
}

static void push_slices(worker_stream *ws, uint64_t clock, uint32_t block, float value,
                        uint32_t first, uint32_t count)
{
    ws->clock = clock;
    ws->block = block;
    ws->value = value;
    ws->first = first;
    ws->count = count;
    nw_run(&ws->s->w, push_on_loop, ws);
    stream_await_sent(ws);
}

static void push(worker_stream *ws, uint64_t clock, uint32_t block, float value)
{
    push_slices(ws, clock, block, value, 0, ws->s->plan->layout.slice_count);
}

static void pull_on_loop(void *arg)
{
    Psgd__V1__PullWeightsRequest request = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity who;
    worker_stream *ws = arg;

    if (!ws->has_begun && !ws->leaves_identity) {
        identify(ws, &who);
        request.worker = &who;
    }
    ws->has_begun = true;
    request.attempt = ws->attempt;
    request.clock = ws->clock;
    ps_stream_send(ws->stream, &request.base, NULL, 0);
}

static void pull(worker_stream *ws, uint64_t clock)
{
    ws->clock = clock;
    nw_run(&ws->s->w, pull_on_loop, ws);
    stream_await_sent(ws);
}

static void assert_ended(worker_stream *ws, ps_code code, const char *reason)
{
    stream_await_end(ws);
    if (ws->error.status.code != code || strcmp(ws->error.reason, reason) != 0) {
        fail_msg("wanted %s, got %s: %s", reason, ws->error.reason, ws->error.status.text);
    }
    free(ws->weights);
}

static Psgd__V1__GetStatusResponse *status_of(server *s)
{
    static const Psgd__V1__GetStatusRequest request = PSGD__V1__GET_STATUS_REQUEST__INIT;
    ps_error error;
    Psgd__V1__GetStatusResponse *reply =
        (Psgd__V1__GetStatusResponse *)nw_call(&s->w, "GetStatus", &request.base, &error);

    assert_non_null(reply);
    return reply;
}

static void collect_weights(server *s, float *out)
{
    nw_collected files;

    nw_collect(&s->w, "job-1", 1, &files);
    assert_string_equal(files.error.status.text, "");
    assert_int_equal(files.count, 2);
    assert_string_equal(files.files[0].name, "weights.f32");
    assert_int_equal(files.files[0].bytes.len, s->plan->layout.param_count * sizeof(float));
    memcpy(out, files.files[0].bytes.data, files.files[0].bytes.len);
    nw_collected_fini(&files);
}

/* Every value has gone down by `by`. */
static void assert_moved(const server *s, const float *now, float by)
{
    for (size_t i = 0; i < s->plan->layout.param_count; i++) {
        assert_true(now[i] == s->weights[i] - by);
    }
}

/* --- tests ------------------------------------------------------------------------ */

static void a_stream_without_a_job_is_refused(void **state)
{
    server s;
    worker_stream ws;

    (void)state;
    server_begin(&s, two_workers, 0);
    stream_begin(&ws, &s, "PushGradient", 0);
    push(&ws, 0, 0, 1);
    assert_ended(&ws, PS_FAILED_PRECONDITION, "NO_JOB");
    stream_begin(&ws, &s, "PullWeights", 0);
    pull(&ws, 0);
    assert_ended(&ws, PS_FAILED_PRECONDITION, "NO_JOB");
    server_end(&s);
}

static void whoever_does_not_belong_here_is_told_why(void **state)
{
    static const char *const methods[] = {"PushGradient", "PullWeights"};
    server s;
    worker_stream ws;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    for (size_t m = 0; m < 2; m++) {
        void (*speak)(void *) = m == 0 ? push_on_loop : pull_on_loop;

        stream_begin(&ws, &s, methods[m], 0);
        ws.leaves_identity = true;
        nw_run(&s.w, speak, &ws);
        assert_ended(&ws, PS_INVALID_ARGUMENT, "NO_IDENTITY");
        stream_begin(&ws, &s, methods[m], 0);
        ws.attempt = 2;
        nw_run(&s.w, speak, &ws);
        assert_ended(&ws, PS_ABORTED, "WRONG_ATTEMPT");
        stream_begin(&ws, &s, methods[m], 0);
        ws.job_id = "job-2";
        nw_run(&s.w, speak, &ws);
        assert_ended(&ws, PS_FAILED_PRECONDITION, "WRONG_JOB");
        stream_begin(&ws, &s, methods[m], 0);
        ws.layout_hash++;
        nw_run(&s.w, speak, &ws);
        assert_ended(&ws, PS_FAILED_PRECONDITION, "WRONG_MODEL");
        stream_begin(&ws, &s, methods[m], 2);
        nw_run(&s.w, speak, &ws);
        assert_ended(&ws, PS_INVALID_ARGUMENT, "WRONG_RANK");
    }
    server_end(&s);
}

static void bad_pushes_have_errors_of_their_own_and_change_nothing(void **state)
{
    static const struct {
        int spoil;
        ps_code code;
        const char *reason;
    } cases[] = {
        {SHORT_PAYLOAD, PS_DATA_LOSS, "BAD_SLICE"},
        {LONG_PAYLOAD, PS_DATA_LOSS, "BAD_SLICE"},
        {NO_SUCH_SLICE, PS_INVALID_ARGUMENT, "BAD_SLICE"},
        {WRONG_CODEC, PS_INVALID_ARGUMENT, "BAD_SLICE"},
        {LIES_ABOUT_BYTES, PS_DATA_LOSS, "BAD_SLICE"},
    };
    server s;
    worker_stream ws;
    float *now;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stream_begin(&ws, &s, "PushGradient", 0);
        ws.spoil = cases[i].spoil;
        push(&ws, 0, 0, 1);
        assert_ended(&ws, cases[i].code, cases[i].reason);
    }
    stream_begin(&ws, &s, "PushGradient", 0);
    push(&ws, 2, 0, 1); /* two steps ahead under bsp */
    assert_ended(&ws, PS_OUT_OF_RANGE, "WRONG_CLOCK");
    stream_begin(&ws, &s, "PushGradient", 0);
    push(&ws, 0, 1, 1); /* the other worker's block */
    assert_ended(&ws, PS_PERMISSION_DENIED, "NOT_HELD");
    collect_weights(&s, now);
    assert_moved(&s, now, 0);

    stream_begin(&ws, &s, "PushGradient", 0); /* the next honest call works */
    push(&ws, 0, 0, 1);
    stream_await_acks(&ws, 1);
    stream_end(&ws);
    free(now);
    server_end(&s);
}

/* Whoever sent it may go on as if nothing were: the server says itself that the job has failed. */
static void a_push_that_is_not_finite_ends_the_attempt(void **state)
{
    server s;
    worker_stream ws;
    float *now;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    stream_begin(&ws, &s, "PushGradient", 1);
    push(&ws, 0, 1, NAN);
    assert_ended(&ws, PS_INVALID_ARGUMENT, "DIVERGED");
    assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED);
    collect_weights(&s, now);
    assert_moved(&s, now, 0);
    free(now);
    server_end(&s);
}

static void a_pull_waits_for_the_pushes_of_all(void **state)
{
    server s;
    worker_stream push0, push1, pull0;
    unsigned n;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    n = s.plan->layout.slice_count;
    stream_begin(&push0, &s, "PushGradient", 0);
    stream_begin(&push1, &s, "PushGradient", 1);
    stream_begin(&pull0, &s, "PullWeights", 0);
    pull(&pull0, 0);
    stream_await_slices(&pull0, n);
    assert_memory_equal(pull0.weights, s.weights, s.plan->layout.param_count * sizeof(float));

    push(&push0, 0, 0, 1);
    stream_await_acks(&push0, 1);
    pull(&pull0, 1);
    push_slices(&push1, 0, 1, 3, 0, 1);
    stream_await_slices(&pull0, n + 1); /* the one slice that is complete comes first */
    assert_int_equal(push1.acks, 0);
    push_slices(&push1, 0, 1, 3, 1, n - 1);
    stream_await_acks(&push1, 1);
    stream_await_slices(&pull0, 2 * n);
    assert_int_equal(pull0.slices_in, 2 * n); /* each once */
    assert_int_equal(pull0.last_clock, 1);
    assert_moved(&s, pull0.weights, 0.5f * 2);
    stream_end(&push0);
    stream_end(&push1);
    stream_end(&pull0);
    server_end(&s);
}

static void a_push_that_is_repeated_changes_nothing(void **state)
{
    server s;
    worker_stream ws;
    Psgd__V1__GetStatusResponse *status;
    float *now;

    (void)state;
    server_begin(&s, two_workers, 2); /* the second acknowledgement is lost */
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    stream_begin(&ws, &s, "PushGradient", 1);
    push(&ws, 0, 1, 3);
    stream_await_acks(&ws, 1);
    stream_end(&ws);
    stream_begin(&ws, &s, "PushGradient", 0);
    push(&ws, 0, 0, 1);
    stream_await_end(&ws);
    assert_int_equal(ws.error.status.code, PS_UNAVAILABLE);
    assert_int_equal(ws.acks, 0);
    free(ws.weights);

    stream_begin(&ws, &s, "PushGradient", 0); /* again, as the worker does it */
    push(&ws, 0, 0, 1);
    stream_await_acks(&ws, 1);
    assert_int_equal(ws.last_clock, 0);
    status = status_of(&s);
    assert_int_equal(status->counters->applied, 2 * s.plan->layout.slice_count);
    assert_int_equal(status->counters->duplicates, s.plan->layout.slice_count);
    assert_int_equal(status->counters->version, 1);
    protobuf_c_message_free_unpacked(&status->base, NULL);
    collect_weights(&s, now);
    assert_moved(&s, now, 0.5f * 2);
    stream_end(&ws);
    free(now);
    server_end(&s);
}

static void a_younger_process_takes_the_place_of_the_older(void **state)
{
    server s;
    worker_stream old, young, late;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    stream_begin(&old, &s, "PushGradient", 0);
    push(&old, 0, 0, 1);
    stream_await_acks(&old, 1);
    stream_begin(&young, &s, "PushGradient", 0);
    young.incarnation = old.incarnation + 1;
    push(&young, 0, 0, 1);
    stream_await_acks(&young, 1);
    assert_ended(&old, PS_ABORTED, "REPLACED");
    stream_begin(&late, &s, "PushGradient", 0);
    late.incarnation = old.incarnation;
    push(&late, 0, 0, 1);
    assert_ended(&late, PS_ABORTED, "OLD_INCARNATION");
    stream_end(&young);
    server_end(&s);
}

static void workers_may_come_before_the_server_hears_of_the_barrier(void **state)
{
    server s;
    worker_stream ws;

    (void)state;
    server_begin(&s, two_workers, 0);
    prepare(&s);
    assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_PREPARED);
    stream_begin(&ws, &s, "PushGradient", 0);
    push(&ws, 0, 0, 1);
    stream_await_acks(&ws, 1);
    stream_end(&ws);
    server_end(&s);
}

static void the_end_of_the_attempt_ends_its_streams(void **state)
{
    server s;
    worker_stream push0, pull0;
    ps_error error;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    stream_begin(&push0, &s, "PushGradient", 0);
    push(&push0, 0, 0, 1);
    stream_await_acks(&push0, 1);
    stream_begin(&pull0, &s, "PullWeights", 0);
    pull(&pull0, 1); /* will never be answered */
    nw_abort(&s.w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    assert_ended(&push0, PS_ABORTED, "ATTEMPT_OVER");
    assert_ended(&pull0, PS_ABORTED, "ATTEMPT_OVER");
    assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE);
    server_end(&s);
}

static void a_server_has_finished_when_all_steps_are_in(void **state)
{
    server s;
    worker_stream streams[2];
    float *now;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    assert_int_equal(s.plan->total_steps, 3);
    for (uint32_t w = 0; w < 2; w++) {
        stream_begin(&streams[w], &s, "PushGradient", w);
    }
    for (unsigned clock = 0; clock < 3; clock++) {
        for (uint32_t w = 0; w < 2; w++) {
            assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING);
            push(&streams[w], clock, w, 1);
            stream_await_acks(&streams[w], clock + 1);
        }
    }
    nw_await(&s.w, is_finished, "FINISHED");
    collect_weights(&s, now);
    for (size_t i = 0; i < s.plan->layout.param_count; i++) {
        assert_true(now[i] == ((s.weights[i] - 0.5f) - 0.5f) - 0.5f);
    }
    stream_end(&streams[0]);
    stream_end(&streams[1]);
    free(now);
    server_end(&s);
}

/* The weights are 47 MiB, 47 messages. One is under way; what has left the server
 * beside it is what gRPC's window and the sockets take: docs/wire.md. */
static void a_reader_that_stops_costs_one_message(void **state)
{
    static const char *const one_worker =
        "{\"workers\":1,\"data\":{\"train_limit\":6400},\"epochs\":1,"
        "\"model\":{\"widths\":[15600]},\"consistency\":{\"name\":\"asp\"},"
        "\"optimizer\":{\"rule\":{\"name\":\"sgd\"}}}";
    enum { LOOKS = 200, LEFT = 40 };
    server s;
    worker_stream ws;
    Psgd__V1__GetStatusResponse *status;

    (void)state;
    server_begin(&s, one_worker, 0);
    start(&s);
    stream_set(&ws, &s, "PullWeights", 0);
    ws.does_not_read = true;
    nw_run(&s.w, open_stream, &ws);
    pull(&ws, 0);
    for (unsigned i = 0; i < LOOKS; i++) {
        status = status_of(&s);
        assert_in_range(status->counters->messages_down, 0, LEFT);
        protobuf_c_message_free_unpacked(&status->base, NULL);
    }
    nw_run(&s.w, read_stream, &ws);
    stream_await_slices(&ws, s.plan->layout.slice_count);
    assert_int_equal(ws.slices_in, s.plan->layout.slice_count);
    assert_memory_equal(ws.weights, s.weights, s.plan->layout.param_count * sizeof(float));
    status = status_of(&s);
    assert_int_equal(status->counters->messages_down, ws.answers);
    assert_true(ws.answers > LEFT);
    assert_true(status->counters->bytes_down > s.plan->layout.param_count * sizeof(float));
    protobuf_c_message_free_unpacked(&status->base, NULL);
    stream_end(&ws);
    server_end(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_without_a_job_is_refused),
        cmocka_unit_test(whoever_does_not_belong_here_is_told_why),
        cmocka_unit_test(bad_pushes_have_errors_of_their_own_and_change_nothing),
        cmocka_unit_test(a_push_that_is_not_finite_ends_the_attempt),
        cmocka_unit_test(a_pull_waits_for_the_pushes_of_all),
        cmocka_unit_test(a_push_that_is_repeated_changes_nothing),
        cmocka_unit_test(a_younger_process_takes_the_place_of_the_older),
        cmocka_unit_test(workers_may_come_before_the_server_hears_of_the_barrier),
        cmocka_unit_test(the_end_of_the_attempt_ends_its_streams),
        cmocka_unit_test(a_server_has_finished_when_all_steps_are_in),
        cmocka_unit_test(a_reader_that_stops_costs_one_message),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
