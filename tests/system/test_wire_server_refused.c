/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_server_refused.c - what ParameterService refuses, with which code and
 * reason, and that the next honest call works. */
#include "tests/support/cmocka_all.h"

#include "tests/support/wire_server_world.h"

#include <string.h>

/* Makes an honest contribution of rank 0 to clock 1 into a wrong one. */
typedef void spoil_fn(sw_gift *g);

static void too_long_payload(sw_gift *g)
{
    static uint8_t bytes[(1 << 20) + 1];

    g->head.payload.data = bytes;
    g->head.payload.len = sizeof bytes;
    g->bytes = 0;
}

static void too_long_head(sw_gift *g)
{
    memset(g->long_name, 'x', sizeof g->long_name - 1);
    g->who.job_id = g->long_name;
}

static void cut_payload(sw_gift *g)
{
    g->bytes -= 4;
}

static void no_payload(sw_gift *g)
{
    g->bytes = 0;
}

static void payload_left_over(sw_gift *g)
{
    g->head.n_slices--;
}

static void payload_without_slices(sw_gift *g)
{
    g->head.n_slices = 0;
}

static void another_model(sw_gift *g)
{
    g->who.layout_hash++;
}

static void another_attempt(sw_gift *g)
{
    g->head.attempt = 2;
}

static void another_job(sw_gift *g)
{
    g->who.job_id = (char *)"job-2";
}

static void a_later_clock(sw_gift *g)
{
    g->head.clock++;
}

static void a_clock_without_end(sw_gift *g)
{
    g->head.clock = UINT64_MAX;
}

static void no_such_rank(sw_gift *g)
{
    g->who.rank = 2;
}

static void a_block_of_others(sw_gift *g)
{
    g->head.block = 1;
}

static void no_such_block(sw_gift *g)
{
    g->head.block = 2;
}

static void no_such_slice(sw_gift *g)
{
    g->slices[0].slice = 1000;
}

static void another_codec(sw_gift *g)
{
    g->slices[0].codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    g->slices[0].int8 = &g->int8;
}

/* It has a record of kind 0, which there is not: nobody could go on with that. */
static void a_report_that_is_none(sw_gift *g)
{
    static uint8_t bytes[16];

    g->head.report = (ProtobufCBinaryData){.data = bytes, .len = sizeof bytes};
}

static void no_codec(sw_gift *g)
{
    g->slices[0].codec_case = PSGD__V1__ENCODING__CODEC__NOT_SET;
}

static void another_length(sw_gift *g)
{
    g->slices[0].payload_bytes -= 4;
    g->bytes -= 4;
}

static void no_identity(sw_gift *g)
{
    g->head.worker = NULL;
}

static void an_older_process(sw_gift *g)
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
    {"a report that is none", a_report_that_is_none, PS_INVALID_ARGUMENT, "BAD_REPORT"},
    {"another codec", another_codec, PS_INVALID_ARGUMENT, "BAD_SLICE"},
    {"no codec", no_codec, PS_INVALID_ARGUMENT, "BAD_SLICE"},
    {"another length", another_length, PS_DATA_LOSS, "BAD_SLICE"},
    {"no identity", no_identity, PS_INVALID_ARGUMENT, "NO_IDENTITY"},
    {"an older process", an_older_process, PS_ABORTED, "OLD_INCARNATION"},
};

static void each_wrong_push_has_an_error_of_its_own(void **state)
{
    wire_server_world w;

    (void)state;
    sw_begin(&w, 2, "", 0);
    sw_push_honestly(&w, 0, 0, 1.0f);
    sw_push_honestly(&w, 0, 1, 1.0f);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        static sw_gift g;
        raw_stream s;
        float before = sw_first_weight(&w);

        /* As the first message of a stream, at the clock that is due. */
        print_message("%s\n", refusals[i].name);
        sw_open_push(&w, &s);
        sw_gift_whole(&w, &g, i + 1, 1.0f);
        refusals[i].spoil(&g);
        sw_gift_send(&g, &s);
        sw_must_end(&s, refusals[i].code, refusals[i].reason);
        assert_int_equal(raw_count(&s), 0);
        raw_close(&s);
        /* The next honest step is as if it had not been. */
        sw_push_honestly(&w, i + 1, 0, 1.0f);
        sw_push_honestly(&w, i + 1, 1, 1.0f);
        assert_true(sw_first_weight(&w) == before - 1.0f);
    }
    sw_end(&w);
}

static void a_wrong_message_in_the_midst_of_a_stream_ends_it_alone(void **state)
{
    static sw_gift g;
    wire_server_world w;
    raw_stream s, other;

    (void)state;
    sw_begin(&w, 2, "", 0);
    sw_open_push(&w, &other);
    sw_gift_whole(&w, &g, 0, 1.0f);
    g.who.rank = g.head.block = 1;
    sw_gift_send(&g, &other);
    assert_true(raw_wait(&other, 1));
    for (int round = 0; round < 2; round++) {
        sw_open_push(&w, &s);
        sw_gift_init(&w, &g, 0, 0, 1, 1.0f);
        sw_gift_send(&g, &s);
        sw_gift_init(&w, &g, 0, 1, 1, 1.0f);
        g.head.worker = NULL;
        if (round == 0) {
            g.head.attempt = 7;
        } else {
            g.bytes -= 1;
        }
        sw_gift_send(&g, &s);
        sw_must_end(&s, round == 0 ? PS_ABORTED : PS_DATA_LOSS,
                    round == 0 ? "WRONG_ATTEMPT" : "BAD_SLICE");
        raw_close(&s);
    }
    sw_push_honestly(&w, 0, 0, 1.0f);
    sw_gift_whole(&w, &g, 1, 1.0f);
    g.head.worker = NULL;
    g.head.block = 1;
    sw_gift_send(&g, &other);
    assert_true(raw_wait(&other, 2));
    raw_close(&other);
    sw_end(&w);
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

static void pull_of_rows_of_a_job_without_tables(pull_t *req, Psgd__V1__WorkerIdentity *who)
{
    static uint64_t keys[2] = {3, 8};

    (void)who;
    req->keys = keys;
    req->n_keys = 2;
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
        {pull_of_rows_of_a_job_without_tables, PS_FAILED_PRECONDITION, "NO_TABLES"},
    };
    wire_server_world w;

    (void)state;
    sw_begin(&w, 1, "", 0);
    sw_push_honestly(&w, 0, 0, 1.0f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Psgd__V1__WorkerIdentity who;
        pull_t req = sw_pull(1, &who);
        raw_stream s;

        sw_identify(&w, &who, 0);
        sw_open_pull(&w, &s, true);
        assert_true(raw_send(&s, &req.base, NULL, 0));
        assert_true(raw_wait(&s, 1));
        assert_int_equal(s.messages[0].clock, 1);
        assert_int_equal(s.messages[0].version, 1);
        assert_int_equal(s.messages[0].slices, w.job.plan->layout.slice_count);
        assert_int_equal(s.messages[0].bytes, w.job.plan->layout.param_count * sizeof(float));
        raw_close(&s);
        cases[i].spoil(&req, &who);
        sw_open_pull(&w, &s, true);
        assert_true(raw_send(&s, &req.base, NULL, 0));
        sw_must_end(&s, cases[i].code, cases[i].reason);
        assert_int_equal(raw_count(&s), 0);
        raw_close(&s);
    }
    sw_end(&w);
}

static void a_second_pull_waits_for_the_answer_to_the_first(void **state)
{
    Psgd__V1__WorkerIdentity who;
    wire_server_world w;
    raw_stream s;
    pull_t req;
    size_t count;

    (void)state;
    sw_begin(&w, 1, "", 0);
    sw_identify(&w, &who, 0);
    req = sw_pull(1, &who);
    sw_open_pull(&w, &s, true);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    req = sw_pull(2, NULL);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    sw_push_honestly(&w, 0, 0, 1.0f);
    assert_true(raw_wait(&s, 1));
    count = raw_count(&s);
    sw_push_honestly(&w, 1, 0, 1.0f);
    assert_true(raw_wait(&s, count + 1));
    assert_int_equal(s.messages[0].clock, 1);
    assert_int_equal(s.messages[count].clock, 2);
    raw_close(&s);
    assert_int_equal(ps_wire_server_waits(w.server.wire), 2);
    sw_end(&w);
}

static void without_a_job_everything_is_refused(void **state)
{
    static sw_gift g;
    Psgd__V1__WorkerIdentity who;
    wire_server_world w;
    raw_stream s;
    pull_t req;

    (void)state;
    sw_begin(&w, 1, "", 0);
    dp_server_close(&w.server);
    sw_identify(&w, &who, 0);
    sw_open_push(&w, &s);
    sw_gift_whole(&w, &g, 0, 1.0f);
    sw_gift_send(&g, &s);
    sw_must_end(&s, PS_FAILED_PRECONDITION, "NO_JOB");
    raw_close(&s);
    sw_open_pull(&w, &s, true);
    req = sw_pull(0, &who);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    sw_must_end(&s, PS_FAILED_PRECONDITION, "NO_JOB");
    raw_close(&s);
    sw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_push_has_an_error_of_its_own),
        cmocka_unit_test(a_wrong_message_in_the_midst_of_a_stream_ends_it_alone),
        cmocka_unit_test(each_wrong_pull_has_an_error_of_its_own),
        cmocka_unit_test(a_second_pull_waits_for_the_answer_to_the_first),
        cmocka_unit_test(without_a_job_everything_is_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
