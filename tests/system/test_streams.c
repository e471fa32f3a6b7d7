/* SPDX-License-Identifier: Apache-2.0 */
/* test_streams.c - ParameterService against clients that are not our worker:
 * what is refused and how, what is counted once, who replaces whom, what is
 * bounded. */
#include "tests/support/cmocka_all.h"

#include "tests/support/dataplane.h"
#include "tests/support/raw_stream.h"

#include "common/base/xalloc.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Psgd__V1__PushGradientRequest push_t;
typedef Psgd__V1__PullWeightsRequest pull_t;

enum { SLICES_MAX = 64, PIECE_BYTES = 512 << 10 };

typedef struct world {
    dp_job job;
    side serving, calling;
    dp_server server;
} world;

static void begin(world *w, uint32_t workers, const char *choices, uint64_t drop_ack)
{
    char json[512];

    snprintf(json, sizeof json,
             "{\"workers\": %u, \"pservers\": 1, \"seed\": 3, \"data\": {\"name\": \"glyphs\"}, "
             "\"block_size\": 1, \"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": "
             "{\"lr\": 1}}}%s%s}",
             workers, strstr(choices, "model") != NULL ? "" : ", \"model\": {\"widths\": [30]}",
             choices);
    dp_job_init(&w->job, json);
    for (size_t i = 0; i < w->job.plan->layout.param_count; i++) {
        w->job.weights[i] = 1000.0f; /* whole numbers: sums are exact */
    }
    side_start(&w->serving);
    side_start(&w->calling);
    dp_server_start(&w->server, &w->serving, &w->job, 0, drop_ack);
}

static void end(world *w)
{
    dp_server_stop(&w->server);
    dp_server_fini(&w->server);
    side_stop(&w->serving);
    side_stop(&w->calling);
    dp_job_fini(&w->job);
}

/* --- messages ------------------------------------------------------------------ */

/* A push of slices [first, first + count) in f32, every value the same. */
typedef struct gift {
    push_t head;
    Psgd__V1__WorkerIdentity who;
    Psgd__V1__Encoding slices[SLICES_MAX], *pointers[SLICES_MAX];
    Psgd__V1__F32 f32;
    Psgd__V1__Int8 int8;
    char long_name[100 << 10];
    float *values;
    size_t bytes; /* that are sent as payload */
} gift;

static void identify(const world *w, Psgd__V1__WorkerIdentity *who, uint32_t rank)
{
    psgd__v1__worker_identity__init(who);
    who->job_id = (char *)w->server.session.job_id;
    who->rank = rank;
    who->incarnation = 5;
    who->layout_hash = w->job.plan->layout.hash;
}

static void gift_init(const world *w, gift *g, uint64_t clock, uint32_t first, uint32_t count,
                      float value)
{
    const ps_layout *layout = &w->job.plan->layout;
    size_t n = 0;

    assert_in_range(count, 0, SLICES_MAX);
    memset(g, 0, sizeof *g);
    psgd__v1__push_gradient_request__init(&g->head);
    psgd__v1__f32__init(&g->f32);
    psgd__v1__int8__init(&g->int8);
    identify(w, &g->who, 0);
    g->head.worker = &g->who;
    g->head.attempt = 1;
    g->head.clock = clock;
    g->head.slices = g->pointers;
    g->head.n_slices = count;
    for (uint32_t i = 0; i < count; i++) {
        Psgd__V1__Encoding *e = g->pointers[i] = &g->slices[i];

        psgd__v1__encoding__init(e);
        e->slice = first + i;
        e->payload_bytes = layout->slices[first + i].n * (uint32_t)sizeof(float);
        e->codec_case = PSGD__V1__ENCODING__CODEC_F32;
        e->f32 = &g->f32;
        g->bytes += e->payload_bytes;
        n += layout->slices[first + i].n;
    }
    g->values = ps_xcalloc(n + 1, sizeof *g->values);
    for (size_t i = 0; i < n; i++) {
        g->values[i] = value;
    }
}

static void gift_whole(const world *w, gift *g, uint64_t clock, float value)
{
    gift_init(w, g, clock, 0, w->job.plan->layout.slice_count, value);
}

static void gift_send(gift *g, raw_stream *s)
{
    assert_true(raw_send(s, &g->head.base, g->values, g->bytes));
    free(g->values);
}

static pull_t wish(uint64_t clock, Psgd__V1__WorkerIdentity *who)
{
    pull_t req = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;

    req.worker = who;
    req.attempt = 1;
    req.clock = clock;
    return req;
}

static void open_push(world *w, raw_stream *s)
{
    raw_open(s, &w->calling, w->server.address, "PushGradient", true);
}

static void open_pull(world *w, raw_stream *s, bool is_reading)
{
    raw_open(s, &w->calling, w->server.address, "PullWeights", is_reading);
}

/* Value 0 of slice 0. */
static float first_weight(world *w)
{
    float *block = ps_xcalloc(w->job.plan->layout.param_count, sizeof *block), value;

    dp_server_weights(&w->server, block);
    value = block[0];
    free(block);
    return value;
}

static void must_end(raw_stream *s, ps_code code, const char *reason)
{
    const ps_error *e = raw_end(s);

    if (e->status.code != code || strcmp(e->reason, reason) != 0) {
        fail_msg("%s ended with %s, %s: %s; should be %s, %s", s->method,
                 ps_code_name(e->status.code), e->reason, e->status.text, ps_code_name(code),
                 reason);
    }
}

/* --- what is refused -------------------------------------------------------------- */

/* Makes an honest contribution of rank 0 to clock 1 into a wrong one. */
typedef void spoil_fn(gift *g);

static void too_long_payload(gift *g)
{
    static uint8_t bytes[(1 << 20) + 1];

    g->head.payload.data = bytes;
    g->head.payload.len = sizeof bytes;
    g->bytes = 0;
}

static void too_long_head(gift *g)
{
    memset(g->long_name, 'x', sizeof g->long_name - 1);
    g->who.job_id = g->long_name;
}

static void cut_payload(gift *g)
{
    g->bytes -= 4;
}

static void no_payload(gift *g)
{
    g->bytes = 0;
}

static void payload_left_over(gift *g)
{
    g->head.n_slices--;
}

static void payload_without_slices(gift *g)
{
    g->head.n_slices = 0;
}

static void another_model(gift *g)
{
    g->who.layout_hash++;
}

static void another_attempt(gift *g)
{
    g->head.attempt = 2;
}

static void another_job(gift *g)
{
    g->who.job_id = (char *)"job-2";
}

static void a_later_clock(gift *g)
{
    g->head.clock++;
}

static void a_clock_without_end(gift *g)
{
    g->head.clock = UINT64_MAX;
}

static void no_such_rank(gift *g)
{
    g->who.rank = 2;
}

static void a_block_of_others(gift *g)
{
    g->head.block = 1;
}

static void no_such_block(gift *g)
{
    g->head.block = 2;
}

static void no_such_slice(gift *g)
{
    g->slices[0].slice = 1000;
}

static void another_codec(gift *g)
{
    g->slices[0].codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    g->slices[0].int8 = &g->int8;
}

static void no_codec(gift *g)
{
    g->slices[0].codec_case = PSGD__V1__ENCODING__CODEC__NOT_SET;
}

static void another_length(gift *g)
{
    g->slices[0].payload_bytes -= 4;
    g->bytes -= 4;
}

static void no_identity(gift *g)
{
    g->head.worker = NULL;
}

static void an_older_process(gift *g)
{
    g->who.incarnation = 4;
}

static const struct refusal {
    const char *name;
    spoil_fn *spoil;
    ps_code code;
    const char *reason;
} refusals[] = {
    {"payload too long", too_long_payload, PS_RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"},
    {"head too long", too_long_head, PS_RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"},
    {"payload cut", cut_payload, PS_DATA_LOSS, "BAD_SLICE"},
    {"no payload", no_payload, PS_DATA_LOSS, "BAD_SLICE"},
    {"payload left over", payload_left_over, PS_DATA_LOSS, "BAD_SLICE"},
    {"payload without slices", payload_without_slices, PS_DATA_LOSS, "BAD_SLICE"},
    {"another model", another_model, PS_FAILED_PRECONDITION, "WRONG_MODEL"},
    {"another attempt", another_attempt, PS_ABORTED, "WRONG_ATTEMPT"},
    {"another job", another_job, PS_FAILED_PRECONDITION, "WRONG_JOB"},
    {"a later clock", a_later_clock, PS_OUT_OF_RANGE, "WRONG_CLOCK"},
    {"a clock without end", a_clock_without_end, PS_OUT_OF_RANGE, "WRONG_CLOCK"},
    {"no such rank", no_such_rank, PS_INVALID_ARGUMENT, "WRONG_RANK"},
    {"a block of others", a_block_of_others, PS_PERMISSION_DENIED, "NOT_HELD"},
    {"no such block", no_such_block, PS_PERMISSION_DENIED, "NOT_HELD"},
    {"no such slice", no_such_slice, PS_INVALID_ARGUMENT, "BAD_SLICE"},
    {"another codec", another_codec, PS_INVALID_ARGUMENT, "BAD_SLICE"},
    {"no codec", no_codec, PS_INVALID_ARGUMENT, "BAD_SLICE"},
    {"another length", another_length, PS_DATA_LOSS, "BAD_SLICE"},
    {"no identity", no_identity, PS_INVALID_ARGUMENT, "NO_IDENTITY"},
    {"an older process", an_older_process, PS_ABORTED, "OLD_INCARNATION"},
};

/* Sends and waits for the acknowledgement, on a stream of its own. */
static void push_honestly(world *w, uint64_t clock, uint32_t rank, float value)
{
    static gift g;
    raw_stream s;

    open_push(w, &s);
    gift_whole(w, &g, clock, value);
    g.who.rank = rank;
    g.head.block = rank;
    gift_send(&g, &s);
    assert_true(raw_wait(&s, 1));
    assert_int_equal(s.messages[0].clock, clock);
    assert_int_equal(s.messages[0].block, rank);
    raw_close(&s);
}

static void each_wrong_push_has_an_error_of_its_own(void **state)
{
    world w;

    (void)state;
    begin(&w, 2, "", 0);
    push_honestly(&w, 0, 0, 1.0f);
    push_honestly(&w, 0, 1, 1.0f);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        static gift g;
        raw_stream s;
        float before = first_weight(&w);

        /* As the first message of a stream, at the clock that is due. */
        print_message("%s\n", refusals[i].name);
        open_push(&w, &s);
        gift_whole(&w, &g, i + 1, 1.0f);
        refusals[i].spoil(&g);
        gift_send(&g, &s);
        must_end(&s, refusals[i].code, refusals[i].reason);
        assert_int_equal(raw_count(&s), 0);
        raw_close(&s);
        /* The next honest step is as if it had not been. */
        push_honestly(&w, i + 1, 0, 1.0f);
        push_honestly(&w, i + 1, 1, 1.0f);
        assert_true(first_weight(&w) == before - 1.0f);
    }
    end(&w);
}

static void a_wrong_message_in_the_midst_of_a_stream_ends_it_alone(void **state)
{
    static gift g;
    world w;
    raw_stream s, other;

    (void)state;
    begin(&w, 2, "", 0);
    open_push(&w, &other);
    gift_whole(&w, &g, 0, 1.0f);
    g.who.rank = g.head.block = 1;
    gift_send(&g, &other);
    assert_true(raw_wait(&other, 1));
    for (int round = 0; round < 2; round++) {
        open_push(&w, &s);
        gift_init(&w, &g, 0, 0, 1, 1.0f);
        gift_send(&g, &s);
        gift_init(&w, &g, 0, 1, 1, 1.0f);
        g.head.worker = NULL;
        if (round == 0) {
            g.head.attempt = 7;
        } else {
            g.bytes -= 1;
        }
        gift_send(&g, &s);
        must_end(&s, round == 0 ? PS_ABORTED : PS_DATA_LOSS,
                 round == 0 ? "WRONG_ATTEMPT" : "BAD_SLICE");
        raw_close(&s);
    }
    push_honestly(&w, 0, 0, 1.0f);
    gift_whole(&w, &g, 1, 1.0f);
    g.head.worker = NULL;
    g.head.block = 1;
    gift_send(&g, &other);
    assert_true(raw_wait(&other, 2));
    raw_close(&other);
    end(&w);
}

typedef void spoil_pull_fn(pull_t *req, Psgd__V1__WorkerIdentity *who);

static void pull_of_another_attempt(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)who;
    req->attempt = 0;
}

static void pull_without_identity(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)who;
    req->worker = NULL;
}

static void pull_of_another_model(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)req;
    who->layout_hash ^= 1;
}

static void pull_of_another_job(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)req;
    who->job_id = (char *)"";
}

static void pull_of_no_rank(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)req;
    who->rank = UINT32_MAX;
}

static void pull_of_an_older_process(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)req;
    who->incarnation = 0;
}

static void pull_of_an_earlier_clock(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    (void)who;
    req->clock = 0;
}

static void each_wrong_pull_has_an_error_of_its_own(void **state)
{
    static const struct {
        spoil_pull_fn *spoil;
        ps_code code;
        const char *reason;
    } cases[] = {
        {pull_of_another_attempt, PS_ABORTED, "WRONG_ATTEMPT"},
        {pull_without_identity, PS_INVALID_ARGUMENT, "NO_IDENTITY"},
        {pull_of_another_model, PS_FAILED_PRECONDITION, "WRONG_MODEL"},
        {pull_of_another_job, PS_FAILED_PRECONDITION, "WRONG_JOB"},
        {pull_of_no_rank, PS_INVALID_ARGUMENT, "WRONG_RANK"},
        {pull_of_an_older_process, PS_ABORTED, "OLD_INCARNATION"},
        {pull_of_an_earlier_clock, PS_OUT_OF_RANGE, "WRONG_CLOCK"},
    };
    world w;

    (void)state;
    begin(&w, 1, "", 0);
    push_honestly(&w, 0, 0, 1.0f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Psgd__V1__WorkerIdentity who;
        pull_t req = wish(1, &who);
        raw_stream s;

        identify(&w, &who, 0);
        open_pull(&w, &s, true);
        assert_true(raw_send(&s, &req.base, NULL, 0));
        assert_true(raw_wait(&s, 1));
        assert_int_equal(s.messages[0].clock, 1);
        assert_int_equal(s.messages[0].version, 1);
        assert_int_equal(s.messages[0].slices, w.job.plan->layout.slice_count);
        assert_int_equal(s.messages[0].bytes, w.job.plan->layout.param_count * sizeof(float));
        raw_close(&s);
        cases[i].spoil(&req, &who);
        open_pull(&w, &s, true);
        assert_true(raw_send(&s, &req.base, NULL, 0));
        must_end(&s, cases[i].code, cases[i].reason);
        assert_int_equal(raw_count(&s), 0);
        raw_close(&s);
    }
    end(&w);
}

static void a_second_wish_before_the_first_is_answered_is_refused(void **state)
{
    Psgd__V1__WorkerIdentity who;
    world w;
    raw_stream s;
    pull_t req;

    (void)state;
    begin(&w, 1, "", 0);
    identify(&w, &who, 0);
    req = wish(1, &who);
    open_pull(&w, &s, true);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    req = wish(2, NULL);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    must_end(&s, PS_FAILED_PRECONDITION, "FAILED_PRECONDITION");
    raw_close(&s);
    assert_int_equal(ps_streams_waits(w.server.streams), 1);
    end(&w);
}

static void without_a_job_everything_is_refused(void **state)
{
    static gift g;
    Psgd__V1__WorkerIdentity who;
    world w;
    raw_stream s;
    pull_t req;

    (void)state;
    begin(&w, 1, "", 0);
    dp_server_close(&w.server);
    identify(&w, &who, 0);
    open_push(&w, &s);
    gift_whole(&w, &g, 0, 1.0f);
    gift_send(&g, &s);
    must_end(&s, PS_FAILED_PRECONDITION, "NO_JOB");
    raw_close(&s);
    open_pull(&w, &s, true);
    req = wish(0, &who);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    must_end(&s, PS_FAILED_PRECONDITION, "NO_JOB");
    raw_close(&s);
    end(&w);
}

/* --- what comes again ---------------------------------------------------------------- */

static void a_contribution_may_come_in_pieces_and_is_acknowledged_once(void **state)
{
    static gift g;
    world w;
    raw_stream s;
    uint32_t count;
    float before;

    (void)state;
    begin(&w, 1, "", 0);
    count = w.job.plan->layout.slice_count;
    before = first_weight(&w);
    open_push(&w, &s);
    for (uint32_t i = count; i-- > 0;) {
        gift_init(&w, &g, 0, i, 1, 2.0f);
        if (i + 1 < count) {
            g.head.worker = NULL;
        }
        gift_send(&g, &s);
        assert_int_equal(raw_count(&s), 0);
    }
    assert_true(raw_wait(&s, 1));
    gift_init(&w, &g, 0, 0, 1, 2.0f); /* again, on the same stream */
    g.head.worker = NULL;
    gift_send(&g, &s);
    gift_whole(&w, &g, 1, 1.0f);
    g.head.worker = NULL;
    gift_send(&g, &s);
    assert_true(raw_wait(&s, 2));
    assert_int_equal(s.messages[1].clock, 1);
    assert_true(first_weight(&w) == before - 2.0f - 1.0f);
    raw_half_close(&s);
    assert_int_equal(raw_end(&s)->status.code, PS_OK);
    assert_int_equal(raw_count(&s), 2);
    raw_close(&s);
    end(&w);
}

static void what_comes_again_is_acknowledged_again_and_changes_nothing(void **state)
{
    world w;
    const ps_shard_counters *c;
    uint32_t slices;
    float before;

    (void)state;
    begin(&w, 1, "", 0);
    slices = w.job.plan->layout.slice_count;
    before = first_weight(&w);
    push_honestly(&w, 0, 0, 1.0f);
    push_honestly(&w, 0, 0, 100.0f);
    push_honestly(&w, 1, 0, 1.0f);
    push_honestly(&w, 0, 0, 100.0f);
    assert_true(first_weight(&w) == before - 2.0f);
    c = ps_shard_counters_of(w.server.shard);
    assert_int_equal(c->applied, 2 * slices);
    assert_int_equal(c->duplicates, 2 * slices);
    end(&w);
}

static void a_lost_acknowledgement_comes_when_it_is_asked_for_again(void **state)
{
    static gift g;
    world w;
    raw_stream s;
    float before;

    (void)state;
    begin(&w, 1, "", 1);
    before = first_weight(&w);
    for (uint64_t clock = 0; clock < 3; clock++) {
        open_push(&w, &s);
        gift_whole(&w, &g, clock, 1.0f);
        gift_send(&g, &s);
        must_end(&s, PS_UNAVAILABLE, "UNAVAILABLE");
        assert_int_equal(raw_count(&s), 0);
        raw_close(&s);
        push_honestly(&w, clock, 0, 1.0f);
        assert_true(first_weight(&w) == before - (float)(clock + 1));
    }
    end(&w);
}

static void a_push_of_nothing_is_a_contribution_of_zeros(void **state)
{
    static gift g;
    world w;
    raw_stream s;
    float before;

    (void)state;
    begin(&w, 1, "", 0);
    before = first_weight(&w);
    open_push(&w, &s);
    gift_init(&w, &g, 0, 0, 0, 0.0f);
    gift_send(&g, &s);
    assert_true(raw_wait(&s, 1));
    gift_whole(&w, &g, 1, 1.0f);
    g.head.worker = NULL;
    gift_send(&g, &s);
    assert_true(raw_wait(&s, 2));
    assert_true(first_weight(&w) == before - 1.0f);
    raw_close(&s);
    end(&w);
}

/* --- who speaks for a worker ------------------------------------------------------------ */

static void a_newer_stream_takes_the_place_of_the_older(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static gift g;
    world w;
    raw_stream old_push, old_pull, s;
    pull_t req;

    (void)state;
    begin(&w, 1, "", 0);
    identify(&w, &who, 0);
    open_push(&w, &old_push);
    gift_whole(&w, &g, 0, 1.0f);
    gift_send(&g, &old_push);
    assert_true(raw_wait(&old_push, 1));
    open_pull(&w, &old_pull, true);
    req = wish(1, &who);
    assert_true(raw_send(&old_pull, &req.base, NULL, 0));
    assert_true(raw_wait(&old_pull, 1));

    open_push(&w, &s); /* a younger process */
    gift_whole(&w, &g, 1, 1.0f);
    g.who.incarnation++;
    gift_send(&g, &s);
    assert_true(raw_wait(&s, 1));
    must_end(&old_push, PS_ABORTED, "REPLACED");
    raw_close(&old_push);
    raw_close(&s);

    req = wish(2, NULL); /* a pull goes on until it is replaced itself */
    assert_true(raw_send(&old_pull, &req.base, NULL, 0));
    assert_true(raw_wait(&old_pull, 2));
    req = wish(2, &who);
    open_pull(&w, &s, true);
    assert_true(raw_send(&s, &req.base, NULL, 0)); /* of the older process */
    must_end(&s, PS_ABORTED, "OLD_INCARNATION");
    raw_close(&s);
    who.incarnation++;
    open_pull(&w, &s, true);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    assert_true(raw_wait(&s, 1));
    must_end(&old_pull, PS_ABORTED, "REPLACED");
    raw_close(&old_pull);
    raw_close(&s);
    end(&w);
}

static void the_end_of_the_attempt_ends_every_stream(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static gift g;
    world w;
    raw_stream push[2], pull[2];
    pull_t req;

    (void)state;
    begin(&w, 2, "", 0);
    for (uint32_t i = 0; i < 2; i++) {
        identify(&w, &who, i);
        open_push(&w, &push[i]);
        gift_init(&w, &g, 0, 0, 1, 1.0f);
        g.who.rank = g.head.block = i;
        gift_send(&g, &push[i]);
        open_pull(&w, &pull[i], true);
        req = wish(0, &who);
        assert_true(raw_send(&pull[i], &req.base, NULL, 0));
        assert_true(raw_wait(&pull[i], 1)); /* so both streams are known */
    }
    for (uint32_t i = 0; i < 2; i++) { /* and these messages have been taken */
        gift_init(&w, &g, 0, 1, 1, 1.0f);
        g.head.worker = NULL;
        g.head.block = i;
        gift_send(&g, &push[i]);
        gift_init(&w, &g, 0, 2, w.job.plan->layout.slice_count - 2, 1.0f);
        g.head.worker = NULL;
        g.head.block = i;
        gift_send(&g, &push[i]);
        assert_true(raw_wait(&push[i], 1));
    }
    dp_server_close(&w.server);
    for (uint32_t i = 0; i < 2; i++) {
        must_end(&push[i], PS_ABORTED, "ATTEMPT_OVER");
        must_end(&pull[i], PS_ABORTED, "ATTEMPT_OVER");
        raw_close(&push[i]);
        raw_close(&pull[i]);
    }
    end(&w);
}

static void who_hangs_up_is_forgotten(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static gift g;
    world w;
    raw_stream s;
    pull_t req;

    (void)state;
    begin(&w, 1, "", 0);
    identify(&w, &who, 0);
    for (uint64_t clock = 1; clock < 4; clock++) {
        open_pull(&w, &s, true);
        req = wish(clock, &who);
        assert_true(raw_send(&s, &req.base, NULL, 0));
        raw_cancel(&s);
        assert_int_equal(raw_end(&s)->status.code, PS_CANCELLED);
        raw_close(&s);
        open_push(&w, &s);
        gift_init(&w, &g, clock - 1, 0, 1, 1.0f);
        gift_send(&g, &s);
        raw_cancel(&s);
        raw_close(&s);
        push_honestly(&w, clock - 1, 0, 1.0f);
    }
    end(&w);
}

/* --- bounds and counts -------------------------------------------------------------------- */

/* Bytes that malloc has given out and not got back, if that can be known. */
static size_t live_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { VERSIONS = 20, IS_MEASURED = 0 };
#else
enum { VERSIONS = 200, IS_MEASURED = 1 };
#endif

static void a_worker_that_does_not_read_costs_a_few_messages_at_most(void **state)
{
    enum { BOUND = 8 << 20 };
    Psgd__V1__WorkerIdentity who;
    static gift g;
    world w;
    raw_stream lazy, deaf, push;
    pull_t req;
    size_t before = 0, after, block;

    (void)state;
    /* 4.8 MiB of weights: 200 versions of them would be a gigabyte. */
    begin(&w, 3, ", \"consistency\": {\"name\": \"asp\"}, \"model\": {\"widths\": [1600]}", 0);
    block = w.job.plan->layout.param_count * sizeof(float);
    assert_true(block > 4 << 20);
    identify(&w, &who, 1);
    open_pull(&w, &lazy, false);
    open_push(&w, &push);
    for (uint64_t i = 0; i < VERSIONS; i++) {
        const ps_layout *layout = &w.job.plan->layout;
        uint32_t at = 0;

        while (at < layout->slice_count) { /* contributions of rank 0, read and applied */
            uint32_t count = 0;
            size_t bytes = 0;

            while (at + count < layout->slice_count && bytes < PIECE_BYTES) {
                bytes += layout->slices[at + count++].n * sizeof(float);
            }
            gift_init(&w, &g, i, at, count, 1.0f);
            g.head.worker = i == 0 && at == 0 ? &g.who : NULL;
            gift_send(&g, &push);
            at += count;
        }
        assert_true(raw_wait(&push, i + 1));
        req = wish(i, i == 0 ? &who : NULL); /* and never reads what it asks for */
        req.clock = 0;                       /* the same again, to be answered anew */
        assert_true(raw_send(&lazy, &req.base, NULL, 0));
        if (i == 3) {
            before = live_bytes();
        }
    }
    after = live_bytes();
    print_message("%zu KiB of weights, %d versions: memory %+lld KiB\n", block >> 10, VERSIONS,
                  ((long long)after - (long long)before) / 1024);
    assert_true(!IS_MEASURED || after < before + BOUND);
    /* Nor does one that sends and never reads its acknowledgements. */
    raw_open(&deaf, &w.calling, w.server.address, "PushGradient", false);
    for (uint64_t i = 0; i < VERSIONS; i++) {
        gift_init(&w, &g, i, 0, 0, 0.0f);
        g.who.rank = g.head.block = 2;
        g.head.worker = i == 0 ? &g.who : NULL;
        gift_send(&g, &deaf);
    }
    raw_close(&lazy);
    raw_close(&deaf);
    raw_close(&push);
    end(&w);
}

static void bytes_are_counted_as_the_client_counts_them(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static gift g;
    world w;
    raw_stream push, pull;
    pull_t req;
    ps_traffic t;

    (void)state;
    begin(&w, 1, "", 0);
    identify(&w, &who, 0);
    open_push(&w, &push);
    open_pull(&w, &pull, true);
    for (uint64_t clock = 0; clock < 5; clock++) {
        gift_whole(&w, &g, clock, 1.0f);
        if (clock == 3) {
            free(g.values);
            gift_init(&w, &g, clock, 0, 0, 0.0f);
        }
        g.head.worker = clock == 0 ? &g.who : NULL;
        gift_send(&g, &push);
        assert_true(raw_wait(&push, clock + 1));
        req = wish(clock + 1, clock == 0 ? &who : NULL);
        assert_true(raw_send(&pull, &req.base, NULL, 0));
        assert_true(raw_wait(&pull, clock + 1));
    }
    raw_half_close(&push);
    raw_half_close(&pull);
    assert_int_equal(raw_end(&push)->status.code, PS_OK);
    assert_int_equal(raw_end(&pull)->status.code, PS_OK);
    first_weight(&w); /* the server's loop has been and gone */
    t = ps_streams_traffic(w.server.streams);
    assert_int_equal(t.bytes_in, push.traffic[0] + pull.traffic[0]);
    assert_int_equal(t.bytes_out, push.traffic[1] + pull.traffic[1]);
    assert_int_equal(t.messages_in, push.traffic[2] + pull.traffic[2]);
    assert_int_equal(t.messages_out, push.traffic[3] + pull.traffic[3]);
    raw_close(&push);
    raw_close(&pull);
    end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_push_has_an_error_of_its_own),
        cmocka_unit_test(a_wrong_message_in_the_midst_of_a_stream_ends_it_alone),
        cmocka_unit_test(each_wrong_pull_has_an_error_of_its_own),
        cmocka_unit_test(a_second_wish_before_the_first_is_answered_is_refused),
        cmocka_unit_test(without_a_job_everything_is_refused),
        cmocka_unit_test(a_contribution_may_come_in_pieces_and_is_acknowledged_once),
        cmocka_unit_test(what_comes_again_is_acknowledged_again_and_changes_nothing),
        cmocka_unit_test(a_lost_acknowledgement_comes_when_it_is_asked_for_again),
        cmocka_unit_test(a_push_of_nothing_is_a_contribution_of_zeros),
        cmocka_unit_test(a_newer_stream_takes_the_place_of_the_older),
        cmocka_unit_test(the_end_of_the_attempt_ends_every_stream),
        cmocka_unit_test(who_hangs_up_is_forgotten),
        cmocka_unit_test(a_worker_that_does_not_read_costs_a_few_messages_at_most),
        cmocka_unit_test(bytes_are_counted_as_the_client_counts_them),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
