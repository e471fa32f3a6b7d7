/* SPDX-License-Identifier: Apache-2.0 */
/* test_pserver.c - a parameter server as a worker sees it: streams, their errors,
 * repetitions, and the end. */
#include "services/pserver/pserver.h"

#include "common/base/xalloc.h"
#include "tests/support/node_world.h"
#include "tests/support/patience.h"

#include "psgd/v1/parameter.pb-c.h"

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
    ps_service service;

    memset(s, 0, sizeof *s);
    s->pserver = ps_pserver_create(NULL, drop_ack);
    service = ps_pserver_service(s->pserver);
    nw_begin(&s->w, &ps_pserver_hooks, s->pserver, &service, 1, NULL);
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
typedef struct lane {
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
} lane;

static lane *watched; /* of the predicate */
static unsigned wanted;

static void on_sent(void *arg)
{
    lane *l = arg;

    pthread_mutex_lock(&l->s->w.mutex);
    l->is_sent = true;
    nw_changed(&l->s->w);
    pthread_mutex_unlock(&l->s->w.mutex);
}

static void on_end(void *arg, const ps_error *error)
{
    lane *l = arg;

    pthread_mutex_lock(&l->s->w.mutex);
    l->error = *error;
    l->stream = NULL;
    l->is_over = true;
    nw_changed(&l->s->w);
    pthread_mutex_unlock(&l->s->w.mutex);
}

static void on_ack(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PushGradientResponse *ack = (const Psgd__V1__PushGradientResponse *)head;
    lane *l = arg;

    (void)payload;
    pthread_mutex_lock(&l->s->w.mutex);
    l->last_clock = ack->clock;
    l->acks++;
    nw_changed(&l->s->w);
    pthread_mutex_unlock(&l->s->w.mutex);
    ps_stream_read(l->stream);
}

static void on_weights(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PullWeightsResponse *answer = (const Psgd__V1__PullWeightsResponse *)head;
    lane *l = arg;
    size_t at = 0;
    static uint8_t scratch[65536];

    pthread_mutex_lock(&l->s->w.mutex);
    l->last_clock = answer->clock;
    l->answers++;
    for (size_t i = 0; i < answer->n_slices; i++) {
        const Psgd__V1__Encoding *e = answer->slices[i];
        const ps_slice *slice = &l->s->plan->layout.slices[e->slice];
        ps_status st = ps_codec_decode(
            NULL, e,
            e->payload_bytes > 0 ? ps_payload_view(payload, at, e->payload_bytes, scratch) : NULL,
            e->payload_bytes, PS_INTO_SET, l->weights + slice->at, slice->n);

        if (!ps_is_ok(&st)) {
            abort();
        }
        at += e->payload_bytes;
        l->slices_in++;
    }
    nw_changed(&l->s->w);
    pthread_mutex_unlock(&l->s->w.mutex);
    ps_stream_read(l->stream);
}

static void open_lane(void *arg)
{
    static const ps_stream_events push_events = {on_ack, on_sent, on_end},
                                  pull_events = {on_weights, on_sent, on_end};
    lane *l = arg;
    bool is_push = strcmp(l->method, "PushGradient") == 0;

    l->stream = ps_stream_open(l->s->w.channel, &psgd__v1__parameter_service__descriptor, l->method,
                               NW_REPLY_US, 1 << 20, is_push ? &push_events : &pull_events, l);
    if (!l->does_not_read) {
        ps_stream_read(l->stream);
    }
}

static void lane_set(lane *l, server *s, const char *method, uint32_t rank)
{
    memset(l, 0, sizeof *l);
    l->s = s;
    l->method = method;
    l->rank = rank;
    l->attempt = 1;
    l->incarnation = 100;
    l->layout_hash = s->plan->layout.hash;
    l->job_id = "job-1";
    l->weights = ps_xcalloc(s->plan->layout.param_count, sizeof(float));
}

static void lane_begin(lane *l, server *s, const char *method, uint32_t rank)
{
    lane_set(l, s, method, rank);
    nw_run(&s->w, open_lane, l);
}

static void read_lane(void *arg)
{
    ps_stream_read(((lane *)arg)->stream);
}

static void cancel_lane(void *arg)
{
    lane *l = arg;

    if (l->stream != NULL) {
        ps_stream_cancel(l->stream);
    }
}

static bool lane_is_over(node_world *w)
{
    (void)w;
    return watched->is_over;
}
static bool lane_is_sent(node_world *w)
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

static void lane_await_end(lane *l)
{
    watched = l;
    nw_await(&l->s->w, lane_is_over, "the end of a stream");
}

static void lane_end(lane *l)
{
    nw_run(&l->s->w, cancel_lane, l);
    lane_await_end(l);
    free(l->weights);
}

static void lane_await_acks(lane *l, unsigned count)
{
    watched = l;
    wanted = count;
    nw_await(&l->s->w, has_acks, "an acknowledgement");
    assert_true(l->acks >= count);
}

static void lane_await_slices(lane *l, unsigned count)
{
    watched = l;
    wanted = count;
    nw_await(&l->s->w, has_slices, "weights");
    if (l->is_over) {
        fail_msg("the pull ended: %s", l->error.status.text);
    }
}

static void lane_await_sent(lane *l)
{
    watched = l;
    nw_await(&l->s->w, lane_is_sent, "a message to be out");
    pthread_mutex_lock(&l->s->w.mutex);
    l->is_sent = false;
    pthread_mutex_unlock(&l->s->w.mutex);
}

/* What may be wrong with a push. */
enum { FINE, SHORT_PAYLOAD, LONG_PAYLOAD, NO_SUCH_SLICE, WRONG_CODEC, LIES_ABOUT_BYTES };

static void identify(const lane *l, Psgd__V1__WorkerIdentity *who)
{
    psgd__v1__worker_identity__init(who);
    who->job_id = (char *)l->job_id;
    who->rank = l->rank;
    who->incarnation = l->incarnation;
    who->layout_hash = l->layout_hash;
}

/* Slices [first, first + count), every value the same. */
static void push_on_loop(void *arg)
{
    Psgd__V1__PushGradientRequest request = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT;
    Psgd__V1__WorkerIdentity who;
    lane *l = arg;
    const ps_codec *codec = ps_codec_find(l->spoil == WRONG_CODEC ? "f16" : "f32");
    ps_params params = ps_params_default(codec->params);
    ps_encoding heads[8];
    Psgd__V1__Encoding *list[8];
    float values[PS_SLICE_VALUES];
    uint8_t *bytes = ps_xmalloc(1 << 18);
    ps_piece piece = {.data = bytes};

    for (size_t i = 0; i < PS_SLICE_VALUES; i++) {
        values[i] = l->value;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        const ps_slice *slice = &l->s->plan->layout.slices[l->first + i];

        ps_codec_encode(codec, &params, 1, slice->index, values, slice->n, bytes + piece.len,
                        &heads[i]);
        piece.len += heads[i].msg.payload_bytes;
        list[i] = &heads[i].msg;
    }
    if (l->spoil == SHORT_PAYLOAD) {
        piece.len -= 4;
    } else if (l->spoil == LONG_PAYLOAD) {
        memset(bytes + piece.len, 0, 4);
        piece.len += 4;
    } else if (l->spoil == NO_SUCH_SLICE) {
        list[0]->slice = 1000;
    } else if (l->spoil == LIES_ABOUT_BYTES) {
        list[0]->payload_bytes = UINT32_MAX;
    }
    if (!l->has_begun && !l->leaves_identity) {
        identify(l, &who);
        request.worker = &who;
    }
    l->has_begun = true;
    request.attempt = l->attempt;
    request.clock = l->clock;
    request.block = l->block;
    request.slices = list;
    request.n_slices = l->count;
    ps_stream_send(l->stream, &request.base, &piece, piece.len > 0);
    free(bytes);
}

static void push_slices(lane *l, uint64_t clock, uint32_t block, float value, uint32_t first,
                        uint32_t count)
{
    l->clock = clock;
    l->block = block;
    l->value = value;
    l->first = first;
    l->count = count;
    nw_run(&l->s->w, push_on_loop, l);
    lane_await_sent(l);
}

static void push(lane *l, uint64_t clock, uint32_t block, float value)
{
    push_slices(l, clock, block, value, 0, l->s->plan->layout.slice_count);
}

static void pull_on_loop(void *arg)
{
    Psgd__V1__PullWeightsRequest request = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity who;
    lane *l = arg;

    if (!l->has_begun && !l->leaves_identity) {
        identify(l, &who);
        request.worker = &who;
    }
    l->has_begun = true;
    request.attempt = l->attempt;
    request.clock = l->clock;
    ps_stream_send(l->stream, &request.base, NULL, 0);
}

static void pull(lane *l, uint64_t clock)
{
    l->clock = clock;
    nw_run(&l->s->w, pull_on_loop, l);
    lane_await_sent(l);
}

static void assert_ended(lane *l, ps_code code, const char *reason)
{
    lane_await_end(l);
    if (l->error.status.code != code || strcmp(l->error.reason, reason) != 0) {
        fail_msg("wanted %s, got %s: %s", reason, l->error.reason, l->error.status.text);
    }
    free(l->weights);
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
    lane l;

    (void)state;
    server_begin(&s, two_workers, 0);
    lane_begin(&l, &s, "PushGradient", 0);
    push(&l, 0, 0, 1);
    assert_ended(&l, PS_FAILED_PRECONDITION, "NO_JOB");
    lane_begin(&l, &s, "PullWeights", 0);
    pull(&l, 0);
    assert_ended(&l, PS_FAILED_PRECONDITION, "NO_JOB");
    server_end(&s);
}

static void whoever_does_not_belong_here_is_told_why(void **state)
{
    static const char *const methods[] = {"PushGradient", "PullWeights"};
    server s;
    lane l;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    for (size_t m = 0; m < 2; m++) {
        void (*speak)(void *) = m == 0 ? push_on_loop : pull_on_loop;

        lane_begin(&l, &s, methods[m], 0);
        l.leaves_identity = true;
        nw_run(&s.w, speak, &l);
        assert_ended(&l, PS_INVALID_ARGUMENT, "NO_IDENTITY");
        lane_begin(&l, &s, methods[m], 0);
        l.attempt = 2;
        nw_run(&s.w, speak, &l);
        assert_ended(&l, PS_ABORTED, "WRONG_ATTEMPT");
        lane_begin(&l, &s, methods[m], 0);
        l.job_id = "job-2";
        nw_run(&s.w, speak, &l);
        assert_ended(&l, PS_FAILED_PRECONDITION, "WRONG_JOB");
        lane_begin(&l, &s, methods[m], 0);
        l.layout_hash++;
        nw_run(&s.w, speak, &l);
        assert_ended(&l, PS_FAILED_PRECONDITION, "WRONG_MODEL");
        lane_begin(&l, &s, methods[m], 2);
        nw_run(&s.w, speak, &l);
        assert_ended(&l, PS_INVALID_ARGUMENT, "WRONG_RANK");
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
    lane l;
    float *now;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lane_begin(&l, &s, "PushGradient", 0);
        l.spoil = cases[i].spoil;
        push(&l, 0, 0, 1);
        assert_ended(&l, cases[i].code, cases[i].reason);
    }
    lane_begin(&l, &s, "PushGradient", 0);
    push(&l, 2, 0, 1); /* two steps ahead under bsp */
    assert_ended(&l, PS_OUT_OF_RANGE, "WRONG_CLOCK");
    lane_begin(&l, &s, "PushGradient", 0);
    push(&l, 0, 1, 1); /* the other worker's block */
    assert_ended(&l, PS_PERMISSION_DENIED, "NOT_HELD");
    collect_weights(&s, now);
    assert_moved(&s, now, 0);

    lane_begin(&l, &s, "PushGradient", 0); /* the next honest call works */
    push(&l, 0, 0, 1);
    lane_await_acks(&l, 1);
    lane_end(&l);
    free(now);
    server_end(&s);
}

static void a_pull_waits_for_the_pushes_of_all(void **state)
{
    server s;
    lane push0, push1, pull0;
    unsigned n;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    n = s.plan->layout.slice_count;
    lane_begin(&push0, &s, "PushGradient", 0);
    lane_begin(&push1, &s, "PushGradient", 1);
    lane_begin(&pull0, &s, "PullWeights", 0);
    pull(&pull0, 0);
    lane_await_slices(&pull0, n);
    assert_memory_equal(pull0.weights, s.weights, s.plan->layout.param_count * sizeof(float));

    push(&push0, 0, 0, 1);
    lane_await_acks(&push0, 1);
    pull(&pull0, 1);
    push_slices(&push1, 0, 1, 3, 0, 1);
    lane_await_slices(&pull0, n + 1); /* the one slice that is complete comes first */
    assert_int_equal(push1.acks, 0);
    push_slices(&push1, 0, 1, 3, 1, n - 1);
    lane_await_acks(&push1, 1);
    lane_await_slices(&pull0, 2 * n);
    assert_int_equal(pull0.slices_in, 2 * n); /* each once */
    assert_int_equal(pull0.last_clock, 1);
    assert_moved(&s, pull0.weights, 0.5f * 2);
    lane_end(&push0);
    lane_end(&push1);
    lane_end(&pull0);
    server_end(&s);
}

static void a_push_that_is_repeated_changes_nothing(void **state)
{
    server s;
    lane l;
    Psgd__V1__GetStatusResponse *status;
    float *now;

    (void)state;
    server_begin(&s, two_workers, 2); /* the second acknowledgement is lost */
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    lane_begin(&l, &s, "PushGradient", 1);
    push(&l, 0, 1, 3);
    lane_await_acks(&l, 1);
    lane_end(&l);
    lane_begin(&l, &s, "PushGradient", 0);
    push(&l, 0, 0, 1);
    lane_await_end(&l);
    assert_int_equal(l.error.status.code, PS_UNAVAILABLE);
    assert_int_equal(l.acks, 0);
    free(l.weights);

    lane_begin(&l, &s, "PushGradient", 0); /* again, as the worker does it */
    push(&l, 0, 0, 1);
    lane_await_acks(&l, 1);
    assert_int_equal(l.last_clock, 0);
    status = status_of(&s);
    assert_int_equal(status->counters->applied, 2 * s.plan->layout.slice_count);
    assert_int_equal(status->counters->duplicates, s.plan->layout.slice_count);
    assert_int_equal(status->counters->version, 1);
    protobuf_c_message_free_unpacked(&status->base, NULL);
    collect_weights(&s, now);
    assert_moved(&s, now, 0.5f * 2);
    lane_end(&l);
    free(now);
    server_end(&s);
}

static void a_younger_process_takes_the_place_of_the_older(void **state)
{
    server s;
    lane old, young, late;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    lane_begin(&old, &s, "PushGradient", 0);
    push(&old, 0, 0, 1);
    lane_await_acks(&old, 1);
    lane_begin(&young, &s, "PushGradient", 0);
    young.incarnation = old.incarnation + 1;
    push(&young, 0, 0, 1);
    lane_await_acks(&young, 1);
    assert_ended(&old, PS_ABORTED, "REPLACED");
    lane_begin(&late, &s, "PushGradient", 0);
    late.incarnation = old.incarnation;
    push(&late, 0, 0, 1);
    assert_ended(&late, PS_ABORTED, "OLD_INCARNATION");
    lane_end(&young);
    server_end(&s);
}

static void workers_may_come_before_the_server_hears_of_the_barrier(void **state)
{
    server s;
    lane l;

    (void)state;
    server_begin(&s, two_workers, 0);
    prepare(&s);
    assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_PREPARED);
    lane_begin(&l, &s, "PushGradient", 0);
    push(&l, 0, 0, 1);
    lane_await_acks(&l, 1);
    lane_end(&l);
    server_end(&s);
}

static void the_end_of_the_attempt_ends_its_streams(void **state)
{
    server s;
    lane push0, pull0;
    ps_error error;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    lane_begin(&push0, &s, "PushGradient", 0);
    push(&push0, 0, 0, 1);
    lane_await_acks(&push0, 1);
    lane_begin(&pull0, &s, "PullWeights", 0);
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
    lane lanes[2];
    float *now;

    (void)state;
    server_begin(&s, two_workers, 0);
    start(&s);
    now = ps_xcalloc(s.plan->layout.param_count, sizeof(float));
    assert_int_equal(s.plan->total_steps, 3);
    for (uint32_t w = 0; w < 2; w++) {
        lane_begin(&lanes[w], &s, "PushGradient", w);
    }
    for (unsigned clock = 0; clock < 3; clock++) {
        for (uint32_t w = 0; w < 2; w++) {
            assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING);
            push(&lanes[w], clock, w, 1);
            lane_await_acks(&lanes[w], clock + 1);
        }
    }
    nw_await(&s.w, is_finished, "FINISHED");
    collect_weights(&s, now);
    for (size_t i = 0; i < s.plan->layout.param_count; i++) {
        assert_true(now[i] == ((s.weights[i] - 0.5f) - 0.5f) - 0.5f);
    }
    lane_end(&lanes[0]);
    lane_end(&lanes[1]);
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
    lane l;
    Psgd__V1__GetStatusResponse *status;

    (void)state;
    server_begin(&s, one_worker, 0);
    start(&s);
    lane_set(&l, &s, "PullWeights", 0);
    l.does_not_read = true;
    nw_run(&s.w, open_lane, &l);
    pull(&l, 0);
    for (unsigned i = 0; i < LOOKS; i++) {
        status = status_of(&s);
        assert_in_range(status->counters->messages_down, 0, LEFT);
        protobuf_c_message_free_unpacked(&status->base, NULL);
    }
    nw_run(&s.w, read_lane, &l);
    lane_await_slices(&l, s.plan->layout.slice_count);
    assert_int_equal(l.slices_in, s.plan->layout.slice_count);
    assert_memory_equal(l.weights, s.weights, s.plan->layout.param_count * sizeof(float));
    status = status_of(&s);
    assert_int_equal(status->counters->messages_down, l.answers);
    assert_true(l.answers > LEFT);
    assert_true(status->counters->bytes_down > s.plan->layout.param_count * sizeof(float));
    protobuf_c_message_free_unpacked(&status->base, NULL);
    lane_end(&l);
    server_end(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_without_a_job_is_refused),
        cmocka_unit_test(whoever_does_not_belong_here_is_told_why),
        cmocka_unit_test(bad_pushes_have_errors_of_their_own_and_change_nothing),
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
