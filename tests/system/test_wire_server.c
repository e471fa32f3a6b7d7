/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_server.c - ParameterService against clients that are not our worker:
 * what is counted once, who replaces whom, what is bounded. */
#include "tests/support/cmocka_all.h"

#include "tests/support/wire_server_world.h"

#include "common/base/xalloc.h"

#include <malloc.h>
#include <stdlib.h>

/* --- what comes again ---------------------------------------------------------------- */

static void a_contribution_may_come_in_pieces_and_is_acknowledged_once(void **state)
{
    static sw_gift g;
    wire_server_world w;
    raw_stream s;
    uint32_t count;
    float before;

    (void)state;
    sw_begin(&w, 1, "", 0);
    count = w.job.plan->layout.slice_count;
    before = sw_first_weight(&w);
    sw_open_push(&w, &s);
    for (uint32_t i = count; i-- > 0;) {
        sw_gift_init(&w, &g, 0, i, 1, 2.0f);
        if (i + 1 < count) {
            g.head.worker = NULL;
        }
        assert_int_equal(raw_count(&s), 0); /* one is missing still */
        sw_gift_send(&g, &s);
    }
    assert_true(raw_wait(&s, 1));
    sw_gift_init(&w, &g, 0, 0, 1, 2.0f); /* again, on the same stream */
    g.head.worker = NULL;
    sw_gift_send(&g, &s);
    sw_gift_whole(&w, &g, 1, 1.0f);
    g.head.worker = NULL;
    sw_gift_send(&g, &s);
    assert_true(raw_wait(&s, 2));
    assert_int_equal(s.messages[1].clock, 1);
    assert_true(sw_first_weight(&w) == before - 2.0f - 1.0f);
    raw_half_close(&s);
    assert_int_equal(raw_end(&s)->status.code, PS_OK);
    assert_int_equal(raw_count(&s), 2);
    raw_close(&s);
    sw_end(&w);
}

static void what_comes_again_is_acknowledged_again_and_changes_nothing(void **state)
{
    wire_server_world w;
    const ps_store_counters *c;
    uint32_t slices;
    float before;

    (void)state;
    sw_begin(&w, 1, "", 0);
    slices = w.job.plan->layout.slice_count;
    before = sw_first_weight(&w);
    sw_push_honestly(&w, 0, 0, 1.0f);
    sw_push_honestly(&w, 0, 0, 100.0f);
    sw_push_honestly(&w, 1, 0, 1.0f);
    sw_push_honestly(&w, 0, 0, 100.0f);
    assert_true(sw_first_weight(&w) == before - 2.0f);
    c = ps_store_counters_of(w.server.store);
    assert_int_equal(c->applied, 2 * slices);
    assert_int_equal(c->duplicates, 2 * slices);
    sw_end(&w);
}

static void a_lost_acknowledgement_comes_when_it_is_asked_for_again(void **state)
{
    static sw_gift g;
    wire_server_world w;
    raw_stream s;
    float before;

    (void)state;
    sw_begin(&w, 1, "", 1);
    before = sw_first_weight(&w);
    for (uint64_t clock = 0; clock < 3; clock++) {
        sw_open_push(&w, &s);
        sw_gift_whole(&w, &g, clock, 1.0f);
        sw_gift_send(&g, &s);
        sw_must_end(&s, PS_UNAVAILABLE, "UNAVAILABLE");
        assert_int_equal(raw_count(&s), 0);
        raw_close(&s);
        sw_push_honestly(&w, clock, 0, 1.0f);
        assert_true(sw_first_weight(&w) == before - (float)(clock + 1));
    }
    sw_end(&w);
}

static void a_push_of_nothing_is_a_contribution_of_zeros(void **state)
{
    static sw_gift g;
    wire_server_world w;
    raw_stream s;
    float before;

    (void)state;
    sw_begin(&w, 1, "", 0);
    before = sw_first_weight(&w);
    sw_open_push(&w, &s);
    sw_gift_init(&w, &g, 0, 0, 0, 0.0f);
    sw_gift_send(&g, &s);
    assert_true(raw_wait(&s, 1));
    sw_gift_whole(&w, &g, 1, 1.0f);
    g.head.worker = NULL;
    sw_gift_send(&g, &s);
    assert_true(raw_wait(&s, 2));
    assert_true(sw_first_weight(&w) == before - 1.0f);
    raw_close(&s);
    sw_end(&w);
}

/* --- who speaks for a worker ------------------------------------------------------------ */

static void a_newer_stream_takes_the_place_of_the_older(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static sw_gift g;
    wire_server_world w;
    raw_stream old_push, old_pull, s;
    pull_t req;

    (void)state;
    sw_begin(&w, 1, "", 0);
    sw_identify(&w, &who, 0);
    sw_open_push(&w, &old_push);
    sw_gift_whole(&w, &g, 0, 1.0f);
    sw_gift_send(&g, &old_push);
    assert_true(raw_wait(&old_push, 1));
    sw_open_pull(&w, &old_pull, true);
    req = sw_pull(1, &who);
    assert_true(raw_send(&old_pull, &req.base, NULL, 0));
    assert_true(raw_wait(&old_pull, 1));

    sw_open_push(&w, &s); /* a younger process */
    sw_gift_whole(&w, &g, 1, 1.0f);
    g.who.incarnation++;
    sw_gift_send(&g, &s);
    assert_true(raw_wait(&s, 1));
    sw_must_end(&old_push, PS_ABORTED, "REPLACED");
    raw_close(&old_push);
    raw_close(&s);

    req = sw_pull(2, NULL); /* a pull goes on until it is replaced itself */
    assert_true(raw_send(&old_pull, &req.base, NULL, 0));
    assert_true(raw_wait(&old_pull, 2));
    req = sw_pull(2, &who);
    sw_open_pull(&w, &s, true);
    assert_true(raw_send(&s, &req.base, NULL, 0)); /* of the older process */
    sw_must_end(&s, PS_ABORTED, "OLD_INCARNATION");
    raw_close(&s);
    who.incarnation++;
    sw_open_pull(&w, &s, true);
    assert_true(raw_send(&s, &req.base, NULL, 0));
    assert_true(raw_wait(&s, 1));
    sw_must_end(&old_pull, PS_ABORTED, "REPLACED");
    raw_close(&old_pull);
    raw_close(&s);
    sw_end(&w);
}

static void the_end_of_the_attempt_ends_every_stream(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static sw_gift g;
    wire_server_world w;
    raw_stream push[2], pull[2];
    pull_t req;

    (void)state;
    sw_begin(&w, 2, "", 0);
    for (uint32_t i = 0; i < 2; i++) {
        sw_identify(&w, &who, i);
        sw_open_push(&w, &push[i]);
        sw_gift_init(&w, &g, 0, 0, 1, 1.0f);
        g.who.rank = g.head.block = i;
        sw_gift_send(&g, &push[i]);
        sw_open_pull(&w, &pull[i], true);
        req = sw_pull(0, &who);
        assert_true(raw_send(&pull[i], &req.base, NULL, 0));
        assert_true(raw_wait(&pull[i], 1)); /* so both streams are known */
    }
    for (uint32_t i = 0; i < 2; i++) { /* and these messages have been taken */
        sw_gift_init(&w, &g, 0, 1, 1, 1.0f);
        g.head.worker = NULL;
        g.head.block = i;
        sw_gift_send(&g, &push[i]);
        sw_gift_init(&w, &g, 0, 2, w.job.plan->layout.slice_count - 2, 1.0f);
        g.head.worker = NULL;
        g.head.block = i;
        sw_gift_send(&g, &push[i]);
        assert_true(raw_wait(&push[i], 1));
    }
    dp_server_close(&w.server);
    for (uint32_t i = 0; i < 2; i++) {
        sw_must_end(&push[i], PS_ABORTED, "ATTEMPT_OVER");
        sw_must_end(&pull[i], PS_ABORTED, "ATTEMPT_OVER");
        raw_close(&push[i]);
        raw_close(&pull[i]);
    }
    sw_end(&w);
}

static void who_hangs_up_is_forgotten(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static sw_gift g;
    wire_server_world w;
    raw_stream s;
    pull_t req;

    (void)state;
    sw_begin(&w, 1, "", 0);
    sw_identify(&w, &who, 0);
    for (uint64_t clock = 1; clock < 4; clock++) {
        sw_open_pull(&w, &s, true);
        req = sw_pull(clock, &who);
        assert_true(raw_send(&s, &req.base, NULL, 0));
        raw_cancel(&s);
        assert_int_equal(raw_end(&s)->status.code, PS_CANCELLED);
        raw_close(&s);
        sw_open_push(&w, &s);
        sw_gift_init(&w, &g, clock - 1, 0, 1, 1.0f);
        sw_gift_send(&g, &s);
        raw_cancel(&s);
        raw_close(&s);
        sw_push_honestly(&w, clock - 1, 0, 1.0f);
    }
    sw_end(&w);
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
    enum { BOUND = 40 << 20, PIECE_BYTES = 512 << 10 };
    Psgd__V1__WorkerIdentity who;
    static sw_gift g;
    wire_server_world w;
    raw_stream lazy, deaf, push;
    pull_t req;
    size_t before = 0, after, block;

    (void)state;
    /* 4.8 MiB of weights: 200 versions of them would be a gigabyte. The bound is
     * what docs/wire.md says of a connection, of which this process has both ends. */
    sw_begin(&w, 3, ", \"consistency\": {\"name\": \"asp\"}, \"model\": {\"widths\": [1600]}", 0);
    block = w.job.plan->layout.param_count * sizeof(float);
    assert_true(block > 4 << 20);
    sw_identify(&w, &who, 1);
    sw_open_pull(&w, &lazy, false);
    sw_open_push(&w, &push);
    for (uint64_t i = 0; i < VERSIONS; i++) {
        const ps_layout *layout = &w.job.plan->layout;
        uint32_t at = 0;

        while (at < layout->slice_count) { /* contributions of rank 0, read and applied */
            uint32_t count = 0;
            size_t bytes = 0;

            while (at + count < layout->slice_count && bytes < PIECE_BYTES) {
                bytes += layout->slices[at + count++].n * sizeof(float);
            }
            sw_gift_init(&w, &g, i, at, count, 1.0f);
            g.head.worker = i == 0 && at == 0 ? &g.who : NULL;
            sw_gift_send(&g, &push);
            at += count;
        }
        assert_true(raw_wait(&push, i + 1));
        req = sw_pull(i, i == 0 ? &who : NULL); /* and never reads what it asks for */
        req.clock = 0;                          /* the same again, to be answered anew */
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
        sw_gift_init(&w, &g, i, 0, 0, 0.0f);
        g.who.rank = g.head.block = 2;
        g.head.worker = i == 0 ? &g.who : NULL;
        sw_gift_send(&g, &deaf);
    }
    raw_close(&lazy);
    raw_close(&deaf);
    raw_close(&push);
    sw_end(&w);
}

static void bytes_are_counted_as_the_client_counts_them(void **state)
{
    Psgd__V1__WorkerIdentity who;
    static sw_gift g;
    wire_server_world w;
    raw_stream push, pull;
    pull_t req;
    ps_traffic t;

    (void)state;
    sw_begin(&w, 1, "", 0);
    sw_identify(&w, &who, 0);
    sw_open_push(&w, &push);
    sw_open_pull(&w, &pull, true);
    for (uint64_t clock = 0; clock < 5; clock++) {
        sw_gift_whole(&w, &g, clock, 1.0f);
        if (clock == 3) {
            free(g.values);
            sw_gift_init(&w, &g, clock, 0, 0, 0.0f);
        }
        g.head.worker = clock == 0 ? &g.who : NULL;
        sw_gift_send(&g, &push);
        assert_true(raw_wait(&push, clock + 1));
        req = sw_pull(clock + 1, clock == 0 ? &who : NULL);
        assert_true(raw_send(&pull, &req.base, NULL, 0));
        assert_true(raw_wait(&pull, clock + 1));
    }
    raw_half_close(&push);
    raw_half_close(&pull);
    assert_int_equal(raw_end(&push)->status.code, PS_OK);
    assert_int_equal(raw_end(&pull)->status.code, PS_OK);
    sw_first_weight(&w); /* the server's loop has been and gone */
    t = ps_wire_server_traffic(w.server.wire);
    assert_int_equal(t.bytes_in, push.traffic.bytes_out + pull.traffic.bytes_out);
    assert_int_equal(t.bytes_out, push.traffic.bytes_in + pull.traffic.bytes_in);
    assert_int_equal(t.messages_in, push.traffic.messages_out + pull.traffic.messages_out);
    assert_int_equal(t.messages_out, push.traffic.messages_in + pull.traffic.messages_in);
    raw_close(&push);
    raw_close(&pull);
    sw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
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
