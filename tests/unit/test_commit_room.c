/* SPDX-License-Identifier: Apache-2.0 */
/* test_commit_room.c - what an attempt leaves is stored before its nodes are let go, however long
 * a disk is full. */
#include "tests/support/commit_world.h"

#include <string.h>

/* To the first moment at which something is due. */
static void pass(cm_world *w)
{
    int64_t at = ps_commit_deadline(&w->c);

    assert_true(at != INT64_MAX);
    cm_tick(w, at > w->now ? at - w->now : 0);
}

static void to_store(cm_world *w)
{
    cm_run(w, &cm_conf);
    cm_finish_workers(w);
    cm_collect_all(w);
    assert_int_equal(w->stored, 1);
}

static void assert_nobody_released(const cm_world *w)
{
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(w->released[i], 0);
    }
}

static void a_result_that_finds_no_room_is_stored_when_there_is_some(void **state)
{
    cm_world w;

    (void)state;
    to_store(&w);
    for (unsigned k = 0; k < 100; k++) {
        ps_commit_stored(&w.c, &cm_full, w.now);
        cm_take(&w);
        assert_string_equal(w.c.waits,
                            "waits for room on the coordinator's disk: write x: No space left");
        assert_int_equal(w.c.state, STATE(COLLECTING));
        pass(&w);
        assert_int_equal(w.stored, k + 2);
    }
    assert_nobody_released(&w);
    assert_true(w.now > 100 * S + 400 * (int64_t)S); /* pauses grow, */
    assert_true(w.now < 100 * S + 501 * (int64_t)S); /* to five seconds */
    cm_store(&w);
    assert_string_equal(w.c.waits, "");
    assert_int_equal(w.released[W0], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void nodes_are_kept_until_the_outcome_is_saved(void **state)
{
    cm_world w;

    (void)state;
    to_store(&w);
    w.is_full = true;
    cm_store(&w);
    assert_int_equal(w.c.stage, PS_STAGE_NOTE);
    assert_non_null(strstr(w.c.waits, "room on the coordinator's disk"));
    pass(&w);
    pass(&w);
    assert_nobody_released(&w);
    assert_int_equal(w.stored, 1); /* only the record is written again */
    assert_int_equal(w.saved, 3);
    w.is_full = false;
    pass(&w);
    assert_int_equal(w.released[PS0], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void a_job_is_not_over_before_its_final_state_is_saved(void **state)
{
    cm_world w;

    (void)state;
    to_store(&w);
    cm_store(&w);
    w.is_full = true;
    cm_release_all(&w);
    assert_int_equal(w.over, 0);
    assert_int_equal(w.c.state, STATE(COLLECTING));
    pass(&w);
    assert_int_equal(w.over, 0);
    w.is_full = false;
    pass(&w);
    assert_int_equal(w.over, 1);
    assert_int_equal(w.c.state, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void a_failure_is_saved_before_anybody_is_let_go(void **state)
{
    ps_status nan = ps_fail(PS_DATA_LOSS, "nan");
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    w.is_full = true;
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &nan, w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_DECIDED);
    assert_nobody_released(&w);
    assert_int_equal(w.collected[W0], 0);
    cm_tick(&w, 3600 * (int64_t)S);
    assert_nobody_released(&w);
    w.is_full = false;
    pass(&w);
    assert_nobody_released(&w); /* all have files */
    assert_int_equal(w.collected[W0], 1);
    assert_int_equal(w.collected[PS0], 1);
    assert_string_equal(w.c.message, "worker w1 (h:2) failed: nan");
    ps_commit_fini(&w.c);
}

static void files_that_find_no_room_are_asked_for_again(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    for (unsigned k = 0; k < 100; k++) { /* longer than it may take to collect */
        ps_commit_held(&w.c, W1, false, &cm_full, w.now);
        cm_take(&w);
        assert_int_equal(w.c.outcome, 0);
        pass(&w);
        cm_beat(&w, W1, PHASE(FINISHED));
        assert_int_equal(w.collected[W1], k + 2);
    }
    assert_true(w.now > 100 * S + cm_conf.collect_us);
    ps_commit_collected(&w.c, W1, &cm_ok, w.now);
    cm_take(&w);
    assert_string_equal(w.c.waits, "");
    assert_int_equal(w.c.outcome, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void it_says_whose_disk_is_full(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_held(&w.c, PS0, true, &cm_full, w.now);
    assert_string_equal(w.c.waits, "waits for room on parameter server ps0 (h:3)'s disk: write x: "
                                   "No space left");
    ps_commit_fini(&w.c);
}

static void a_node_that_dies_while_its_files_wait_is_named(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    ps_commit_held(&w.c, W1, false, &cm_full, w.now);
    cm_tick(&w, cm_conf.lease_us);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "worker w1"));
    cm_store(&w);
    cm_tick(&w, cm_conf.abort_us);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void files_that_wait_in_one_failure_are_not_lost_by_the_next(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_held(&w.c, W0, false, &cm_full, w.now);
    w.is_full = true;
    ps_commit_restarted(&w.c, W1, 99, w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_DECIDED);
    pass(&w);
    w.is_full = false;
    pass(&w);
    assert_int_equal(w.c.stage, PS_STAGE_SALVAGE);
    pass(&w);
    assert_int_equal(w.collected[W0], 2);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    cm_take(&w);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_STORE);
    ps_commit_fini(&w.c);
}

/* The save fails, and then the files of another node arrive, for which nothing has to wait. */
static void files_that_arrive_do_not_end_the_tries_to_save_a_decision(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_held(&w.c, W0, false, &cm_full, w.now);
    w.is_full = true;
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_DECIDED);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    cm_take(&w);
    assert_true(w.c.waits[0] != '\0');
    w.is_full = false;
    pass(&w);
    assert_int_equal(w.c.stage, PS_STAGE_SALVAGE);
    assert_string_equal(w.c.waits, "");
    ps_commit_fini(&w.c);
}

static void cancel_gives_up_a_result_that_waits(void **state)
{
    cm_world w;

    (void)state;
    to_store(&w);
    ps_commit_stored(&w.c, &cm_full, w.now);
    cm_take(&w);
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(CANCELLED));
    assert_int_equal(w.stored, 2); /* what fits is stored */
    ps_commit_stored(&w.c, &cm_full, w.now);
    cm_take(&w);
    assert_int_equal(w.released[W0], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(CANCELLED));
    assert_string_equal(w.c.message, "cancelled by a client while it waited for room for its "
                                     "files; not all of its files are stored: write x: No space "
                                     "left");
    ps_commit_fini(&w.c);
}

static void cancel_during_a_try_waits_for_that_one(void **state)
{
    cm_world w;

    (void)state;
    to_store(&w);
    ps_commit_stored(&w.c, &cm_full, w.now);
    cm_take(&w);
    pass(&w);
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    assert_int_equal(w.stored, 2);
    cm_store(&w); /* it was in time */
    assert_int_equal(w.c.outcome, STATE(DONE));
    ps_commit_fini(&w.c);

    to_store(&w);
    ps_commit_stored(&w.c, &cm_full, w.now);
    cm_take(&w);
    pass(&w);
    ps_commit_cancel(&w.c, "asked", w.now);
    ps_commit_stored(&w.c, &cm_full, w.now);
    cm_take(&w);
    assert_int_equal(w.stored, 3);
    cm_store(&w);
    assert_int_equal(w.c.outcome, STATE(CANCELLED));
    ps_commit_fini(&w.c);
}

static void cancel_says_whose_files_are_lost(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    ps_commit_held(&w.c, W1, false, &cm_full, w.now);
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    assert_string_equal(w.c.message,
                        "asked before the files of worker w1 (h:2) were stored: they are lost");
    assert_int_equal(w.released[W1], 1);
    cm_store(&w);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(CANCELLED));
    ps_commit_fini(&w.c);
}

static void a_cancelled_job_waits_for_no_room(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    ps_commit_held(&w.c, W1, true, &cm_full, w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_STORE);
    assert_string_equal(w.c.message, "asked; the files of worker w1 (h:2) are lost: write x: No "
                                     "space left");
    ps_commit_fini(&w.c);
}

static void cancel_ends_a_failure_s_wait_for_files(void **state)
{
    ps_status nan = ps_fail(PS_DATA_LOSS, "nan");
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &nan, w.now);
    cm_take(&w);
    ps_commit_collected(&w.c, W1, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    ps_commit_held(&w.c, W0, false, &cm_full, w.now);
    cm_tick(&w, 60 * S);
    ps_commit_held(&w.c, W0, false, &cm_full, w.now);
    assert_int_equal(w.c.stage, PS_STAGE_SALVAGE);
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_STORE);
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_string_equal(w.c.message, "worker w1 (h:2) failed: nan; asked while files of worker w0 "
                                     "(h:1) waited for room: they are lost");
    ps_commit_fini(&w.c);
}

static void a_start_that_cannot_be_saved_asks_nobody(void **state)
{
    cm_world w = {.now = 100 * S, .is_full = true};

    (void)state;
    ps_commit_begin(&w.c, &cm_conf, cm_nodes, NODES, w.now);
    ps_commit_unstarted(&w.c, &cm_full, w.now);
    cm_take(&w);
    assert_int_equal(w.asked[W0], 0);
    assert_nobody_released(&w);
    assert_int_equal(w.over, 0);
    w.is_full = false;
    pass(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    assert_int_equal(w.over, 1);
    ps_commit_fini(&w.c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_that_finds_no_room_is_stored_when_there_is_some),
        cmocka_unit_test(nodes_are_kept_until_the_outcome_is_saved),
        cmocka_unit_test(a_job_is_not_over_before_its_final_state_is_saved),
        cmocka_unit_test(a_failure_is_saved_before_anybody_is_let_go),
        cmocka_unit_test(files_that_find_no_room_are_asked_for_again),
        cmocka_unit_test(it_says_whose_disk_is_full),
        cmocka_unit_test(a_node_that_dies_while_its_files_wait_is_named),
        cmocka_unit_test(files_that_wait_in_one_failure_are_not_lost_by_the_next),
        cmocka_unit_test(files_that_arrive_do_not_end_the_tries_to_save_a_decision),
        cmocka_unit_test(cancel_gives_up_a_result_that_waits),
        cmocka_unit_test(cancel_during_a_try_waits_for_that_one),
        cmocka_unit_test(cancel_says_whose_files_are_lost),
        cmocka_unit_test(a_cancelled_job_waits_for_no_room),
        cmocka_unit_test(cancel_ends_a_failure_s_wait_for_files),
        cmocka_unit_test(a_start_that_cannot_be_saved_asks_nobody),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
