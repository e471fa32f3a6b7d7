/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_server_policy.c - ParameterService where an answer's time depends on the
 * clock, on who is lost, and on who was late. */
#include "tests/support/cmocka_all.h"

#include "tests/support/wire_server_world.h"

static void open_pull(wire_server_world *w, raw_stream *s, Psgd__V1__WorkerIdentity *who,
                      uint32_t rank, uint64_t clock)
{
    pull_t request;

    sw_identify(w, who, rank);
    request = sw_pull(clock, who);
    sw_open_pull(w, s, true);
    assert_true(raw_send(s, &request.base, NULL, 0));
}

static void a_round_closes_when_its_time_is_up(void **state)
{
    Psgd__V1__WorkerIdentity who;
    wire_server_world w;
    raw_stream pull;
    float before;

    (void)state;
    sw_begin(
        &w, 2,
        ", \"consistency\": {\"name\": \"quorum\", \"params\": {\"quorum\": 1, \"wait_ms\": 5}}",
        0);
    before = sw_first_weight(&w);
    for (uint64_t clock = 0; clock < 3; clock++) { /* nobody else ever comes */
        sw_push_honestly(&w, clock, 0, 2.0f);
        open_pull(&w, &pull, &who, 0, clock + 1);
        assert_true(raw_wait(&pull, 1));
        assert_int_equal(pull.messages[0].version, clock + 1);
        assert_true(sw_first_weight(&w) == before - 2.0f * (float)(clock + 1));
        raw_close(&pull);
    }
    sw_end(&w);
}

static void who_is_late_is_acknowledged_and_dropped(void **state)
{
    wire_server_world w;
    const ps_store_counters *c;
    uint32_t slices;
    float before;

    (void)state;
    sw_begin(&w, 2, ", \"consistency\": {\"name\": \"backup\"}", 0);
    slices = w.job.plan->layout.slice_count;
    before = sw_first_weight(&w);
    sw_push_honestly(&w, 0, 1, 3.0f);
    sw_push_honestly(&w, 0, 0, 100.0f);
    sw_push_honestly(&w, 1, 0, 1.0f);
    assert_true(sw_first_weight(&w) == before - 3.0f - 1.0f);
    c = ps_store_counters_of(w.server.store);
    assert_int_equal(c->applied, 2 * slices);
    assert_int_equal(c->dropped, slices);
    sw_end(&w);
}

/* Slices may come in any number of messages. */
static void wait_for_all_slices(const wire_server_world *w, raw_stream *pull)
{
    size_t slices = 0;

    for (size_t i = 0; slices < w->job.plan->layout.slice_count; i++) {
        assert_true(raw_wait(pull, i + 1));
        slices += pull->messages[i].slices;
    }
}

typedef struct losing {
    wire_server_world *w;
    uint32_t worker;
    ps_status st;
} losing;

static void lose(void *arg)
{
    losing *l = arg;

    l->st = ps_wire_server_lose(l->w->server.wire, l->worker);
}

static void nobody_waits_for_a_lost_worker_and_it_is_told(void **state)
{
    static sw_gift g;
    Psgd__V1__WorkerIdentity who;
    wire_server_world w;
    raw_stream pull, push, again;
    losing l = {.w = &w, .worker = 1};

    (void)state;
    sw_begin(&w, 2, ", \"consistency\": {\"name\": \"ssp\", \"params\": {\"bound\": 0}}", 0);
    sw_push_honestly(&w, 0, 0, 1.0f);
    open_pull(&w, &pull, &who, 0, 1);
    assert_int_equal(raw_count(&pull), 0);
    sw_open_push(&w, &push); /* part of what worker 1 has to say: one slice of several */
    sw_gift_init(&w, &g, 0, 0, 1, 1.0f);
    g.who.rank = 1;
    g.head.block = 1;
    sw_gift_send(&g, &push);
    side_run(&w.serving, lose, &l);
    assert_int_equal(l.st.code, PS_OK);
    wait_for_all_slices(&w, &pull);
    sw_push_honestly(&w, 1, 0, 1.0f); /* and goes on */
    sw_open_push(&w, &again);
    sw_gift_init(&w, &g, 0, 1, 1, 1.0f);
    g.who.rank = 1;
    g.head.block = 1;
    sw_gift_send(&g, &again);
    assert_int_equal(raw_end(&again)->status.code, PS_FAILED_PRECONDITION);
    raw_end(&push); /* ABORTED; or that push came after the loss */
    side_run(&w.serving, lose, &l);
    assert_int_equal(l.st.code, PS_OK);
    raw_close(&again);
    raw_close(&push);
    raw_close(&pull);
    sw_end(&w);
}

static void a_lost_worker_s_open_streams_end(void **state)
{
    Psgd__V1__WorkerIdentity who;
    wire_server_world w;
    raw_stream pull;
    losing l = {.w = &w, .worker = 1};

    (void)state;
    sw_begin(&w, 2, ", \"consistency\": {\"name\": \"ssp\", \"params\": {\"bound\": 0}}", 0);
    open_pull(&w, &pull, &who, 1, 0);
    assert_true(raw_wait(&pull, 1)); /* the server knows it */
    side_run(&w.serving, lose, &l);
    sw_must_end(&pull, PS_ABORTED, "WORKER_LOST");
    raw_close(&pull);
    sw_end(&w);
}

static void bsp_does_not_lose_anybody(void **state)
{
    wire_server_world w;
    losing l = {.w = &w, .worker = 1};

    (void)state;
    sw_begin(&w, 2, "", 0);
    side_run(&w.serving, lose, &l);
    assert_int_equal(l.st.code, PS_FAILED_PRECONDITION);
    sw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_closes_when_its_time_is_up),
        cmocka_unit_test(who_is_late_is_acknowledged_and_dropped),
        cmocka_unit_test(nobody_waits_for_a_lost_worker_and_it_is_told),
        cmocka_unit_test(a_lost_worker_s_open_streams_end),
        cmocka_unit_test(bsp_does_not_lose_anybody),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
