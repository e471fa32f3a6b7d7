/* SPDX-License-Identifier: Apache-2.0 */
/* test_gate.c - what the training thread waits for, and what ends a wait. */
#include "tests/support/cmocka_all.h"

#include "common/train/gate.h"

#include "common/base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { VARIABLES = 3, SLICES = 5, SERVERS = 3, MINUTE_US = 60000000 };

/* Variable 0 is slices 0 and 1, variable 1 is 2, variable 2 is 3 and 4; server
 * 0 has slices 0, 2 and 4, server 1 has 1 and 3, server 2 none. */
typedef struct world {
    ps_layout layout;
    uint32_t first_slice[VARIABLES + 1];
    ps_slice slices[SLICES];
    ps_placement placement;
    ps_gate gate;
    pthread_t thread;
    bool answer; /* of the wait on the thread */
} world;

static void begin(world *w, int64_t patience_us)
{
    static const uint32_t variable[SLICES] = {0, 0, 1, 2, 2};
    static const uint32_t server_of_shard[PS_SHARDS] = {0, 1, 0, 1, 0}; /* slice i is of shard i */
    ps_status st;

    *w = (world){
        .first_slice = {0, 2, 3, 5},
    };
    for (uint32_t i = 0; i < SLICES; i++) {
        w->slices[i] = (ps_slice){.index = i, .variable = variable[i], .shard = i};
    }
    w->layout = (ps_layout){.variable_count = VARIABLES,
                            .first_slice = w->first_slice,
                            .slice_count = SLICES,
                            .slices = w->slices};
    ps_placement_init(&w->placement, &w->layout, SERVERS, 0);
    st = ps_placement_set_shards(&w->placement, server_of_shard, PS_SHARDS);
    assert_true(ps_is_ok(&st));
    for (uint32_t i = 0; i < SERVERS; i++) {
        snprintf(w->placement.servers[i].node_id, PS_ENDPOINT_ID_MAX, "ps-%c", (int)('a' + i));
    }
    ps_gate_init(&w->gate, &w->placement, patience_us);
}

static void end(world *w)
{
    ps_gate_fini(&w->gate);
    ps_placement_fini(&w->placement);
}

static void bring(world *w, uint32_t server, uint64_t clock)
{
    static const uint32_t of[2][3] = {{0, 2, 4}, {1, 3}};

    ps_gate_delivered(&w->gate, server, of[server], server == 0 ? 3 : 2, clock, true);
}

/* --- waits on another thread ------------------------------------------------- */

static void *wait_for_all(void *arg)
{
    world *w = arg;

    w->answer = ps_gate_wait_weights(&w->gate, 0, VARIABLES, 1);
    return NULL;
}

static void *wait_for_acks(void *arg)
{
    world *w = arg;

    w->answer = ps_gate_wait_acks(&w->gate);
    return NULL;
}

static void *pause_for_a_minute(void *arg)
{
    world *w = arg;

    w->answer = ps_gate_pause(&w->gate, MINUTE_US);
    return NULL;
}

/* Starts it and returns when the thread waits; who it waits for is in `whom`. */
static void start(world *w, void *(*fn)(void *arg), char *whom, size_t cap)
{
    assert_int_equal(pthread_create(&w->thread, NULL, fn, w), 0);
    do {
        ps_gate_waited_s(&w->gate, whom, cap);
    } while (whom[0] == '\0');
}

static bool finish(world *w)
{
    pthread_join(w->thread, NULL);
    return w->answer;
}

/* --- tests ------------------------------------------------------------------- */

static void the_weights_of_clock_0_need_not_come(void **state)
{
    world w;
    char whom[32] = "x";

    (void)state;
    begin(&w, 0);
    assert_true(ps_gate_wait_weights(&w.gate, 0, VARIABLES, 0));
    assert_true(ps_gate_wait_acks(&w.gate));
    assert_true(ps_gate_waited_s(&w.gate, whom, sizeof whom) == 0);
    assert_string_equal(whom, "");
    end(&w);
}

static void weights_of_a_later_clock_count_as_its(void **state)
{
    world w;

    (void)state;
    begin(&w, 0);
    assert_int_equal(ps_gate_reached(&w.gate, 0), 0);
    ps_gate_overtake(&w.gate, 1, 7);
    bring(&w, 0, 1);
    ps_gate_overtake(&w.gate, 1, 5);
    bring(&w, 1, 1);
    ps_gate_overtake(&w.gate, 1, 6);
    assert_true(ps_gate_wait_weights(&w.gate, 0, VARIABLES, 1));
    assert_int_equal(ps_gate_reached(&w.gate, 1), 5); /* the least of them */
    assert_int_equal(ps_gate_reached(&w.gate, 2), 2);
    ps_gate_jump(&w.gate, 1, 5);
    assert_true(ps_gate_wait_weights(&w.gate, 0, VARIABLES, 5));
    assert_false(ps_gate_wait_weights(&w.gate, 0, VARIABLES, 6)); /* no patience, no weights */
    assert_int_equal(ps_gate_failure(&w.gate).code, PS_DEADLINE_EXCEEDED);
    end(&w);
    begin(&w, 0);
    ps_gate_overtake(&w.gate, 3, 9);
    ps_gate_overtake(&w.gate, 4, 2); /* a round may close without a step */
    assert_int_equal(ps_gate_reached(&w.gate, 4), 4);
    end(&w);
}

typedef struct beginning {
    world *w;
    uint64_t clock;
    bool is_end;
} beginning;

static void *begin_clock(void *arg)
{
    beginning *b = arg;

    b->w->answer = ps_gate_begin_clock(&b->w->gate, b->clock, &b->is_end);
    return NULL;
}

static void a_held_worker_goes_on_to_where_it_ends(void **state)
{
    bool is_end;
    beginning b;
    world w;

    (void)state;
    begin(&w, 0);
    assert_int_equal(ps_gate_held_at(&w.gate), 0);
    for (uint64_t clock = 0; clock < 3; clock++) {
        assert_true(ps_gate_begin_clock(&w.gate, clock, &is_end));
        assert_false(is_end);
    }
    assert_int_equal(ps_gate_hold(&w.gate), 3); /* it has begun clock 2 */
    b = (beginning){.w = &w, .clock = 3};
    assert_int_equal(pthread_create(&w.thread, NULL, begin_clock, &b), 0);
    assert_int_equal(ps_gate_hold(&w.gate), 3);
    ps_gate_end_at(&w.gate, 4);
    ps_gate_end_at(&w.gate, 9); /* the first counts */
    assert_true(finish(&w));
    assert_false(b.is_end);
    assert_true(ps_gate_begin_clock(&w.gate, 4, &is_end));
    assert_true(is_end);
    assert_int_equal(ps_gate_held_at(&w.gate), 4);
    assert_int_equal(ps_gate_waited_ns(&w.gate), 0);
    end(&w);
}

static void a_worker_is_held_before_its_first_clock_too(void **state)
{
    bool is_end;
    world w;

    (void)state;
    begin(&w, 0);
    assert_int_equal(ps_gate_hold(&w.gate), 1);
    assert_true(ps_gate_begin_clock(&w.gate, 0, &is_end)); /* a job has a step */
    assert_false(is_end);
    end(&w);
}

static void a_held_worker_ends_when_the_gate_closes(void **state)
{
    beginning b;
    world w;

    (void)state;
    begin(&w, 0);
    ps_gate_begin_at(&w.gate, 5);
    assert_int_equal(ps_gate_hold(&w.gate), 5);
    b = (beginning){.w = &w, .clock = 5};
    assert_int_equal(pthread_create(&w.thread, NULL, begin_clock, &b), 0);
    ps_gate_stop(&w.gate);
    assert_false(finish(&w));
    end(&w);
}

static void note_rest(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
}

static uint64_t begun(ps_gate *gate)
{
    uint64_t clock;

    pthread_mutex_lock(&gate->mutex);
    clock = gate->begun;
    pthread_mutex_unlock(&gate->mutex);
    return clock;
}

static void a_worker_stays_at_a_checkpoint_until_the_next_word(void **state)
{
    atomic_bool rested = false;
    const ps_gate_hooks hooks = {.rest = note_rest, .arg = &rested};
    bool is_end;
    beginning b;
    world w;

    (void)state;
    begin(&w, 0);
    ps_gate_set_hooks(&w.gate, &hooks);
    assert_true(ps_gate_cut_at(&w.gate, 1, true));
    assert_false(ps_gate_take_cut(&w.gate, 0));
    assert_true(ps_gate_begin_clock(&w.gate, 0, &is_end));
    assert_true(ps_gate_take_cut(&w.gate, 1));
    b = (beginning){.w = &w, .clock = 1};
    assert_int_equal(pthread_create(&w.thread, NULL, begin_clock, &b), 0);
    assert_int_equal(ps_gate_held_at(&w.gate), 0); /* the job does not end there */
    while (!atomic_load(&rested) && begun(&w.gate) == 1) {
        sched_yield();
    }
    assert_true(atomic_load(&rested));
    assert_int_equal(begun(&w.gate), 1);
    assert_true(ps_gate_cut_at(&w.gate, 2, false));
    assert_true(finish(&w));
    assert_false(b.is_end);
    assert_true(ps_gate_take_cut(&w.gate, 2));
    assert_true(ps_gate_begin_clock(&w.gate, 2, &is_end)); /* it does not stay at this one */
    assert_false(ps_gate_cut_at(&w.gate, 2, true));        /* too late: it goes on */
    assert_true(ps_gate_begin_clock(&w.gate, 3, &is_end));
    end(&w);
}

static void a_worker_takes_a_checkpoint_at_the_next_clock_from_one_on(void **state)
{
    bool is_end;
    world w;

    (void)state;
    begin(&w, 0);
    assert_int_equal(ps_gate_take_cut(&w.gate, 4), 0);
    ps_gate_cut_from(&w.gate, 3); /* it is further already */
    assert_int_equal(ps_gate_take_cut(&w.gate, 5), 3);
    assert_true(ps_gate_begin_clock(&w.gate, 5, &is_end)); /* it does not stay */
    assert_int_equal(ps_gate_take_cut(&w.gate, 6), 0);     /* once */
    ps_gate_cut_from(&w.gate, 8);
    assert_int_equal(ps_gate_take_cut(&w.gate, 7), 0);
    assert_int_equal(ps_gate_take_cut(&w.gate, 8), 8);
    ps_gate_cut_from(&w.gate, 9);
    ps_gate_cut_from(&w.gate, 0); /* it is not wanted any more */
    assert_int_equal(ps_gate_take_cut(&w.gate, 9), 0);
    end(&w);
}

/* It stands still, though what it waits for comes, and whatever fails, until it is stopped. */
static void a_parked_trainer_stands_still_at_its_next_wait(void **state)
{
    ps_status late = ps_fail(PS_UNAVAILABLE, "late");
    char whom[32];
    world w;

    (void)state;
    begin(&w, MINUTE_US);
    start(&w, wait_for_all, whom, sizeof whom);
    while (!ps_gate_park(&w.gate)) {
        (void)sched_yield();
    }
    bring(&w, 0, 1);
    bring(&w, 1, 1);
    ps_gate_fail(&w.gate, &late);
    assert_true(ps_gate_park(&w.gate));
    ps_gate_stop(&w.gate);
    assert_false(finish(&w));
    assert_false(ps_gate_park(&w.gate));
    end(&w);
    begin(&w, MINUTE_US); /* a wait that is over at once is none */
    assert_false(ps_gate_park(&w.gate));
    bring(&w, 0, 1);
    bring(&w, 1, 1);
    assert_true(ps_gate_wait_weights(&w.gate, 0, VARIABLES, 1));
    end(&w);
}

static void a_pause_lasts_and_is_no_wait(void **state)
{
    int64_t began_us = ps_clock_us();
    world w;

    (void)state;
    begin(&w, 0);
    assert_true(ps_gate_pause(&w.gate, 2000));
    assert_true(ps_clock_us() - began_us >= 2000);
    assert_int_equal(ps_gate_waited_ns(&w.gate), 0);
    end(&w);
}

static void a_pause_ends_when_the_gate_closes(void **state)
{
    ps_status why = ps_fail(PS_INTERNAL, "over");
    world w;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&w, 0);
        assert_int_equal(pthread_create(&w.thread, NULL, pause_for_a_minute, &w), 0);
        bring(&w, 0, 1); /* does not end it */
        if (i == 0) {
            ps_gate_stop(&w.gate);
        } else {
            ps_gate_fail(&w.gate, &why);
        }
        assert_false(finish(&w));
        end(&w);
    }
}

static void a_variable_is_there_when_all_its_slices_are(void **state)
{
    world w;
    uint32_t slice;

    (void)state;
    begin(&w, 0);
    slice = 2;
    ps_gate_delivered(&w.gate, 0, &slice, 1, 1, false);
    assert_true(ps_gate_wait_weights(&w.gate, 1, 1, 1));
    slice = 4;
    ps_gate_delivered(&w.gate, 0, &slice, 1, 1, false);
    slice = 3;
    ps_gate_delivered(&w.gate, 1, &slice, 1, 1, false);
    assert_true(ps_gate_wait_weights(&w.gate, 1, 2, 1));
    assert_false(ps_gate_wait_weights(&w.gate, 1, 2, 2)); /* patience is 0 */
    end(&w);
}

static void a_wait_ends_when_what_is_missing_comes(void **state)
{
    world w;
    char whom[32];

    (void)state;
    begin(&w, MINUTE_US);
    start(&w, wait_for_all, whom, sizeof whom);
    assert_string_equal(whom, "ps-a, ps-b");
    bring(&w, 0, 1);
    ps_gate_waited_s(&w.gate, whom, sizeof whom);
    assert_string_equal(whom, "ps-b");
    bring(&w, 1, 1);
    assert_true(finish(&w));
    assert_true(ps_gate_waited_s(&w.gate, whom, sizeof whom) > 0);
    assert_string_equal(whom, "");
    end(&w);
}

static void only_who_has_slices_owes_an_acknowledgement(void **state)
{
    world w;
    char whom[32];

    (void)state;
    begin(&w, MINUTE_US);
    bring(&w, 0, 1); /* that weights are owed is another thing */
    ps_gate_owe_ack(&w.gate, 0);
    ps_gate_owe_ack(&w.gate, 1);
    start(&w, wait_for_acks, whom, sizeof whom);
    assert_string_equal(whom, "ps-a, ps-b");
    ps_gate_acked(&w.gate, 0);
    ps_gate_acked(&w.gate, 0); /* a repetition's */
    ps_gate_waited_s(&w.gate, whom, sizeof whom);
    assert_string_equal(whom, "ps-b");
    ps_gate_acked(&w.gate, 1);
    assert_true(finish(&w));
    end(&w);
}

static void a_wait_for_one_variable_names_only_its_servers(void **state)
{
    world w;
    ps_status st;

    (void)state;
    begin(&w, 1000);
    assert_false(ps_gate_wait_weights(&w.gate, 1, 1, 7));
    st = ps_gate_failure(&w.gate);
    assert_int_equal(st.code, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(st.text, "step 7"));
    assert_non_null(strstr(st.text, "from ps-a"));
    assert_null(strstr(st.text, "ps-b"));
    end(&w);
}

static void a_deadline_names_who_did_not_come(void **state)
{
    world w;
    int64_t began_us;
    ps_status st;

    (void)state;
    begin(&w, 20000);
    ps_gate_owe_ack(&w.gate, 0);
    ps_gate_owe_ack(&w.gate, 1);
    ps_gate_acked(&w.gate, 0);
    began_us = ps_clock_us();
    assert_false(ps_gate_wait_acks(&w.gate));
    assert_true(ps_clock_us() - began_us >= 20000);
    st = ps_gate_failure(&w.gate);
    assert_int_equal(st.code, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(st.text, "ps-b"));
    assert_null(strstr(st.text, "ps-a"));
    assert_null(strstr(st.text, "ps-c"));
    assert_false(ps_gate_is_open(&w.gate));
    end(&w);
}

static void a_stop_ends_a_wait_and_is_no_failure(void **state)
{
    world w;
    char whom[32];
    ps_status st;

    (void)state;
    begin(&w, MINUTE_US);
    start(&w, wait_for_all, whom, sizeof whom);
    ps_gate_stop(&w.gate);
    assert_false(finish(&w));
    st = ps_gate_failure(&w.gate);
    assert_int_equal(st.code, PS_OK);
    assert_false(ps_gate_is_open(&w.gate));
    assert_false(ps_gate_wait_weights(&w.gate, 0, 1, 0)); /* also what is there already */
    end(&w);
}

static void the_first_failure_counts(void **state)
{
    world w;
    char whom[32];
    ps_status first = ps_fail(PS_ABORTED, "the first"), second = ps_fail(PS_INTERNAL, "the second");
    ps_status st;

    (void)state;
    begin(&w, MINUTE_US);
    start(&w, wait_for_all, whom, sizeof whom);
    ps_gate_fail(&w.gate, &first);
    ps_gate_fail(&w.gate, &second);
    assert_false(finish(&w));
    st = ps_gate_failure(&w.gate);
    assert_int_equal(st.code, PS_ABORTED);
    assert_string_equal(st.text, "the first");
    end(&w);
}

static void a_clock_that_went_on_is_known_as_such(void **state)
{
    world w;

    (void)state;
    begin(&w, 0);
    assert_false(ps_gate_is_overtaken(&w.gate, 0));
    ps_gate_overtake(&w.gate, 4, 4); /* they are just those of the clock */
    assert_false(ps_gate_is_overtaken(&w.gate, 4));
    ps_gate_overtake(&w.gate, 4, 5);
    assert_true(ps_gate_is_overtaken(&w.gate, 4));
    assert_false(ps_gate_is_overtaken(&w.gate, 5));
    end(&w);
}

/* --- who fetches for itself ---------------------------------------------------- */

/* Two servers' weights that are there to be fetched, one after the other. */
typedef struct larder {
    world w;
    atomic_uint stock; /* servers whose weights are there */
    uint32_t brought;  /* of those */
    uint32_t thorough; /* fetches */
    uint32_t rests, wakes;
    int64_t again_us;  /* after the last fetch */
    bool fills_itself; /* one more at every thorough fetch */
} larder;

static int64_t fetch(void *arg, uint64_t clock, bool is_thorough)
{
    larder *l = arg;

    l->thorough += is_thorough;
    if (l->fills_itself && is_thorough) {
        atomic_fetch_add(&l->stock, 1);
    }
    while (l->brought < atomic_load(&l->stock) && l->brought < 2) {
        bring(&l->w, l->brought++, clock);
    }
    return l->again_us == INT64_MAX ? INT64_MAX : ps_clock_us() + l->again_us;
}

static void rest(void *arg)
{
    ((larder *)arg)->rests++;
}

static void wake(void *arg)
{
    ((larder *)arg)->wakes++;
}

static void begin_larder(larder *l, int64_t patience_us, int64_t spin_us)
{
    ps_gate_hooks hooks = {
        .fetch = fetch, .rest = rest, .wake = wake, .arg = l, .spin_us = spin_us};

    *l = (larder){.again_us = INT64_MAX};
    begin(&l->w, patience_us);
    ps_gate_set_hooks(&l->w.gate, &hooks);
}

static void what_is_there_is_fetched_without_a_rest(void **state)
{
    larder l;

    (void)state;
    begin_larder(&l, MINUTE_US, 0);
    l.stock = 2;
    assert_true(ps_gate_wait_weights(&l.w.gate, 0, VARIABLES, 1));
    assert_int_equal(l.brought, 2);
    assert_int_equal(l.rests, 0);
    end(&l.w);
}

static void a_nudge_wakes_who_rests(void **state)
{
    char whom[32];
    larder l;

    (void)state;
    for (int64_t spin_us = 0; spin_us <= 1000; spin_us += 1000) {
        begin_larder(&l, MINUTE_US, spin_us);
        start(&l.w, wait_for_all, whom, sizeof whom);
        atomic_fetch_add(&l.stock, 1);
        ps_gate_nudge(&l.w.gate);
        atomic_fetch_add(&l.stock, 1);
        ps_gate_nudge(&l.w.gate);
        assert_true(finish(&l.w));
        assert_int_equal(l.brought, 2);
        end(&l.w);
    }
}

static void it_looks_again_when_it_was_told_to(void **state)
{
    larder l;

    (void)state;
    begin_larder(&l, MINUTE_US, 0);
    l.again_us = 1000;
    l.fills_itself = true; /* nobody nudges */
    assert_true(ps_gate_wait_weights(&l.w.gate, 0, VARIABLES, 1));
    assert_int_equal(l.thorough, 2);
    assert_int_equal(l.rests, 1);
    end(&l.w);
}

static void a_deadline_comes_to_who_fetches_too(void **state)
{
    larder l;
    ps_status st;

    (void)state;
    begin_larder(&l, 1000, 0);
    l.again_us = 100;
    assert_false(ps_gate_wait_weights(&l.w.gate, 0, VARIABLES, 1));
    st = ps_gate_failure(&l.w.gate);
    assert_int_equal(st.code, PS_DEADLINE_EXCEEDED);
    end(&l.w);
}

static void a_pause_is_a_rest_and_ends_with_waking(void **state)
{
    larder l;

    (void)state;
    begin_larder(&l, MINUTE_US, 0);
    assert_true(ps_gate_pause(&l.w.gate, 100));
    assert_int_equal(l.rests, 1);
    assert_int_equal(l.wakes, 1);
    end(&l.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weights_of_clock_0_need_not_come),
        cmocka_unit_test(weights_of_a_later_clock_count_as_its),
        cmocka_unit_test(a_held_worker_goes_on_to_where_it_ends),
        cmocka_unit_test(a_worker_is_held_before_its_first_clock_too),
        cmocka_unit_test(a_held_worker_ends_when_the_gate_closes),
        cmocka_unit_test(a_worker_stays_at_a_checkpoint_until_the_next_word),
        cmocka_unit_test(a_worker_takes_a_checkpoint_at_the_next_clock_from_one_on),
        cmocka_unit_test(a_parked_trainer_stands_still_at_its_next_wait),
        cmocka_unit_test(a_pause_lasts_and_is_no_wait),
        cmocka_unit_test(a_pause_ends_when_the_gate_closes),
        cmocka_unit_test(a_variable_is_there_when_all_its_slices_are),
        cmocka_unit_test(a_wait_ends_when_what_is_missing_comes),
        cmocka_unit_test(only_who_has_slices_owes_an_acknowledgement),
        cmocka_unit_test(a_wait_for_one_variable_names_only_its_servers),
        cmocka_unit_test(a_deadline_names_who_did_not_come),
        cmocka_unit_test(a_stop_ends_a_wait_and_is_no_failure),
        cmocka_unit_test(the_first_failure_counts),
        cmocka_unit_test(a_clock_that_went_on_is_known_as_such),
        cmocka_unit_test(what_is_there_is_fetched_without_a_rest),
        cmocka_unit_test(a_nudge_wakes_who_rests),
        cmocka_unit_test(it_looks_again_when_it_was_told_to),
        cmocka_unit_test(a_deadline_comes_to_who_fetches_too),
        cmocka_unit_test(a_pause_is_a_rest_and_ends_with_waking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
