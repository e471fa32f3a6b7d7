/* SPDX-License-Identifier: Apache-2.0 */
/* test_blame.c - who holds up an attempt, and in whose name it ends. */
#include "tests/support/commit_world.h"

#include <string.h>

static const uint32_t zero[] = {0}, one[] = {1};
static const ps_status late = {.code = PS_DEADLINE_EXCEEDED, .text = "no weights from ps0"};

/* --- the graph ------------------------------------------------------------------ */

enum { A, B, C, P, Q, VERTICES }; /* three workers, two servers */

typedef struct graph {
    ps_waits w;
    bool silent[VERTICES], gone[VERTICES], roots[VERTICES];
} graph;

static void graph_begin(graph *g)
{
    *g = (graph){0};
    ps_waits_init(&g->w, 3, 2);
}

static uint32_t look(graph *g)
{
    return ps_waits_find_roots(&g->w, g->silent, g->gone, g->roots);
}

static void whoever_waits_for_nobody_holds_up_those_who_wait(void **state)
{
    const uint32_t both[] = {0, 1}, last[] = {2};
    graph g;

    (void)state;
    graph_begin(&g);
    assert_int_equal(look(&g), 0);
    ps_waits_set(&g.w, A, both, 2, NULL, 0);
    ps_waits_set(&g.w, B, one, 1, NULL, 0);
    ps_waits_set(&g.w, P, NULL, 0, last, 1);
    ps_waits_set(&g.w, Q, NULL, 0, last, 1);
    assert_int_equal(look(&g), 1);
    assert_true(g.roots[C]);
    ps_waits_fini(&g.w);
}

static void what_a_silent_one_waited_for_is_old(void **state)
{
    const uint32_t last[] = {2};
    graph g;

    (void)state;
    graph_begin(&g);
    ps_waits_set(&g.w, A, zero, 1, NULL, 0);
    ps_waits_set(&g.w, P, NULL, 0, last, 1);
    ps_waits_set(&g.w, C, zero, 1, NULL, 0); /* before it froze */
    assert_int_equal(look(&g), 0);
    g.silent[C] = true;
    assert_int_equal(look(&g), 1);
    assert_true(g.roots[C]);
    ps_waits_fini(&g.w);
}

static void a_server_that_others_wait_for_is_a_root_if_it_is_silent(void **state)
{
    const uint32_t all[] = {0, 1, 2};
    graph g;

    (void)state;
    graph_begin(&g);
    for (uint32_t v = A; v <= C; v++) {
        ps_waits_set(&g.w, v, zero, 1, NULL, 0);
    }
    ps_waits_set(&g.w, P, NULL, 0, all, 3);
    ps_waits_set(&g.w, Q, NULL, 0, all, 3); /* of the next clock, which nobody has begun */
    g.silent[P] = true;
    assert_int_equal(look(&g), 1);
    assert_true(g.roots[P]);
    ps_waits_fini(&g.w);
}

static void in_a_chain_the_end_is_the_root_and_the_lost_do_not_count(void **state)
{
    graph g;

    (void)state;
    graph_begin(&g);
    ps_waits_set(&g.w, A, NULL, 0, one, 1);
    ps_waits_set(&g.w, B, NULL, 0, (const uint32_t[]){2}, 1);
    assert_int_equal(look(&g), 1);
    assert_true(g.roots[C]);
    g.gone[C] = true;
    assert_int_equal(look(&g), 0);
    ps_waits_fini(&g.w);
}

static void ranks_that_do_not_exist_are_ignored(void **state)
{
    const uint32_t junk[] = {7, 1, UINT32_MAX, 1};
    graph g;

    (void)state;
    graph_begin(&g);
    ps_waits_set(&g.w, A, junk, 4, junk, 4);
    assert_int_equal(g.w.of[A].count, 2);
    ps_waits_set(&g.w, B, junk, 0, one, 1); /* itself */
    assert_int_equal(g.w.of[B].count, 0);
    assert_false(ps_waits_is_mutual(&g.w, A));
    ps_waits_set(&g.w, Q, NULL, 0, zero, 1);
    assert_true(ps_waits_is_mutual(&g.w, A));
    ps_waits_fini(&g.w);
}

/* --- the attempt ---------------------------------------------------------------- */

static void says(cm_world *w, size_t i, Psgd__V1__NodePhase phase, const ps_status *error)
{
    ps_commit_beat(&w->c, i, 7 + i, true, phase, error, w->now);
    cm_take(w);
}

/* W0 waits for the server, and the server for W1. */
static void wait_for_w1(cm_world *w)
{
    ps_commit_waits(&w->c, W0, 0, zero, 1, NULL, 0);
    ps_commit_waits(&w->c, PS0, 0, NULL, 0, one, 1);
}

/* Seconds pass in which w1 is silent. */
static void pass(cm_world *w, unsigned seconds)
{
    for (unsigned k = 0; k < seconds; k++) {
        cm_tick(w, 1 * S);
        cm_beat(w, W0, PHASE(RUNNING));
        cm_beat(w, PS0, PHASE(RUNNING));
    }
}

static void it_is_shown_who_holds_up_the_others(void **state)
{
    char text[100];
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_waiting_for(&w.c, w.now, text, sizeof text);
    assert_string_equal(text, "");
    wait_for_w1(&w);
    ps_commit_waiting_for(&w.c, w.now, text, sizeof text);
    assert_string_equal(text, "w1");
    ps_commit_waits(&w.c, W0, 0, NULL, 0, NULL, 0);
    pass(&w, 1);
    ps_commit_waiting_for(&w.c, w.now, text, sizeof text);
    assert_string_equal(text, "w1"); /* silent, though nobody waits for it yet */
    ps_commit_fini(&w.c);
}

static void who_was_frozen_is_named_though_it_thaws(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    pass(&w, 2);
    wait_for_w1(&w);
    says(&w, W0, PHASE(FAILED), &late);
    assert_int_equal(w.c.outcome, 0);
    cm_tick(&w, 1 * S);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(w.c.outcome, 0);
        says(&w, W0, PHASE(FAILED), &late);
        cm_beat(&w, W1, PHASE(RUNNING));
        cm_beat(&w, PS0, PHASE(RUNNING));
    }
    assert_int_equal(w.c.outcome, STATE(FAILED));
    assert_string_equal(w.c.reason, "NODE_STALLED");
    assert_string_equal(w.c.message,
                        "worker w1 (h:2) holds up the others: no heartbeat for 3.0 s until 0.0 s "
                        "ago; worker w0 (h:1) failed: no weights from ps0");
    ps_commit_fini(&w.c);
}

static void who_lives_but_brings_nothing_is_named(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    wait_for_w1(&w);
    says(&w, W0, PHASE(FAILED), &late);
    for (unsigned k = 0; k < 2; k++) {
        cm_beat(&w, W1, PHASE(RUNNING));
        cm_beat(&w, PS0, PHASE(RUNNING));
    }
    assert_string_equal(w.c.reason, "NODE_STALLED");
    assert_string_equal(w.c.message, "worker w1 (h:2) holds up the others; worker w0 (h:1) failed: "
                                     "no weights from ps0");
    ps_commit_fini(&w.c);
}

static void a_job_that_survives_losses_ends_in_the_name_of_the_frozen_one(void **state)
{
    ps_commit_conf asp = cm_conf;
    cm_world w;

    (void)state;
    asp.survives_loss = true;
    cm_run(&w, &asp);
    pass(&w, 2);
    wait_for_w1(&w);
    says(&w, W0, PHASE(FAILED), &late); /* it trains no more, so w1 is the last worker */
    cm_tick(&w, 6 * S - 1);
    says(&w, W0, PHASE(FAILED), &late);
    cm_beat(&w, PS0, PHASE(RUNNING));
    cm_tick(&w, 1);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_string_equal(w.c.message, "worker w1 (h:2) is lost: no heartbeat for 8.0 s");
    ps_commit_fini(&w.c);
}

static void two_ends_of_a_cut_connection_are_named_by_the_worker(void **state)
{
    const ps_status other = {.code = PS_DEADLINE_EXCEEDED, .text = "of another"};
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_waits(&w.c, W0, 0, zero, 1, NULL, 0);
    ps_commit_waits(&w.c, W1, 1, zero, 1, NULL, 0);
    ps_commit_waits(&w.c, PS0, 0, NULL, 0, one, 1); /* nothing of w1 comes to it */
    says(&w, W0, PHASE(FAILED), &other);
    says(&w, W1, PHASE(FAILED), &late);
    for (unsigned k = 0; k < 2; k++) {
        cm_beat(&w, PS0, PHASE(RUNNING));
    }
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_string_equal(w.c.message, "worker w1 (h:2) failed: no weights from ps0");
    ps_commit_fini(&w.c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_for_nobody_holds_up_those_who_wait),
        cmocka_unit_test(what_a_silent_one_waited_for_is_old),
        cmocka_unit_test(a_server_that_others_wait_for_is_a_root_if_it_is_silent),
        cmocka_unit_test(in_a_chain_the_end_is_the_root_and_the_lost_do_not_count),
        cmocka_unit_test(ranks_that_do_not_exist_are_ignored),
        cmocka_unit_test(it_is_shown_who_holds_up_the_others),
        cmocka_unit_test(who_was_frozen_is_named_though_it_thaws),
        cmocka_unit_test(who_lives_but_brings_nothing_is_named),
        cmocka_unit_test(a_job_that_survives_losses_ends_in_the_name_of_the_frozen_one),
        cmocka_unit_test(two_ends_of_a_cut_connection_are_named_by_the_worker),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
