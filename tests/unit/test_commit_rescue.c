/* SPDX-License-Identifier: Apache-2.0 */
/* test_commit_rescue.c - when the state that is left after a loss is stored, before the nodes are
 * let go. */
#include "tests/support/commit_world.h"

#include <string.h>

static ps_commit_conf with_restarts(void)
{
    ps_commit_conf conf = cm_conf;

    conf.restarts_workers = conf.restarts_servers = true;
    return conf;
}

static void expect(const cm_world *w, Psgd__V1__JobState outcome, const char *reason)
{
    assert_int_equal(w->c.outcome, outcome);
    assert_string_equal(w->c.reason, reason);
    assert_true(w->c.is_recovery);
}

static void a_lost_worker_is_rescued_while_all_servers_are_there(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    conf.rescues = true;
    cm_run(&w, &conf);
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    assert_int_equal(w.rescued, 1);
    assert_int_equal(w.released[W0] + w.released[PS0], 0);
    ps_commit_rescued(&w.c, w.now);
    cm_take(&w);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    ps_commit_fini(&w.c);

    cm_run(&w, &conf); /* the server is lost, too */
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.released[W0], 1);
    ps_commit_gone(&w.c, W0, w.now); /* and the other worker, when it is being let go */
    ps_commit_gone(&w.c, W0, w.now);
    assert_string_equal(w.c.message, "worker w1 (h:2) is lost: its process has ended; "
                                     "parameter server ps0 (h:3) is lost: its process has ended; "
                                     "worker w0 (h:1) is lost: its process has ended");
    ps_commit_rescued(&w.c, w.now); /* too late: nothing changes */
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    ps_commit_fini(&w.c);

    cm_run(&w, &conf); /* it takes too long */
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    cm_tick(&w, conf.collect_us + S);
    assert_int_equal(w.released[W0], 1);
    ps_commit_fini(&w.c);

    cm_run(&w, &conf); /* all steps are done, and files are collected */
    cm_finish_workers(&w);
    assert_int_equal(w.c.state, STATE(COLLECTING));
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    assert_int_equal(w.rescued, 1);
    ps_commit_fini(&w.c);

    cm_run(&w, &conf); /* a lost server cannot be rescued */
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.rescued, 0);
    assert_int_equal(w.released[W0], 1);
    ps_commit_fini(&w.c);
}

/* Runs a job on a worker and two servers. */
static void run_on_two_servers(cm_world *w, const ps_commit_conf *conf)
{
    ps_member nodes[NODES];

    memcpy(nodes, cm_nodes, sizeof nodes);
    nodes[W1].role = PSERVER; /* the second one */
    *w = (cm_world){.now = 100 * S};
    ps_commit_begin(&w->c, conf, nodes, NODES, w->now);
    ps_commit_started(&w->c, w->now);
    cm_take(w);
    cm_reserve_all(w);
    cm_prepare_all(w);
    for (size_t i = 0; i < NODES; i++) {
        cm_ready_one(w, i);
    }
    assert_int_equal(w->c.state, STATE(RUNNING));
}

static void a_lost_server_is_rescued_while_its_copies_are_there(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    conf.rescues = conf.has_copies = true;
    run_on_two_servers(&w, &conf);
    assert_int_equal(ps_commit_copier(&w.c, PS0), W1);
    assert_int_equal(ps_commit_copier(&w.c, W1), PS0);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    assert_int_equal(w.rescued, 1);
    ps_commit_gone(&w.c, W0, w.now); /* a worker is not needed for it */
    cm_take(&w);
    assert_int_equal(w.released[W1], 0);
    ps_commit_gone(&w.c, W1, w.now); /* the copies are */
    cm_take(&w);
    assert_int_equal(w.c.stage != PS_STAGE_RESCUE, true);
    ps_commit_fini(&w.c);

    conf.has_copies = false;
    run_on_two_servers(&w, &conf);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.rescued, 0);
    ps_commit_fini(&w.c);
}

static void without_servers_any_worker_rescues_the_job(void **state)
{
    ps_commit_conf conf = with_restarts();
    ps_member nodes[NODES];
    cm_world w = {.now = 100 * S};

    (void)state;
    conf.rescues = true;
    memcpy(nodes, cm_nodes, sizeof nodes);
    nodes[PS0].role = WORKER;
    nodes[PS0].rank = 2;
    ps_commit_begin(&w.c, &conf, nodes, NODES, w.now);
    ps_commit_started(&w.c, w.now);
    cm_take(&w);
    cm_reserve_all(&w);
    cm_prepare_all(&w);
    for (size_t i = 0; i < NODES; i++) {
        cm_ready_one(&w, i);
    }
    assert_int_equal(w.c.state, STATE(RUNNING));
    ps_commit_gone(&w.c, W0, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    assert_int_equal(w.rescued, 1);
    ps_commit_gone(&w.c, W1, w.now); /* another one is left */
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_RESCUE);
    ps_commit_gone(&w.c, PS0, w.now); /* and now none is */
    cm_take(&w);
    assert_true(w.c.stage != PS_STAGE_RESCUE);
    ps_commit_fini(&w.c);
}

static void ranks_with_state_are_needed_for_a_rescue(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    conf.rescues = conf.carries = conf.has_copies = true;
    run_on_two_servers(&w, &conf);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.rescued, 1);
    ps_commit_gone(&w.c, W0, w.now); /* a worker is lost, too */
    cm_take(&w);
    assert_true(w.c.stage != PS_STAGE_RESCUE);
    ps_commit_fini(&w.c);

    run_on_two_servers(&w, &conf);
    ps_commit_gone(&w.c, W0, w.now);
    cm_take(&w);
    assert_int_equal(w.rescued, 0);
    ps_commit_fini(&w.c);
}

static void a_member_that_is_silent_for_its_lease_gives_nothing_any_more(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    conf.rescues = conf.has_kept = true;
    run_on_two_servers(&w, &conf);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.rescued, 1);
    w.now += conf.lease_us - 1;
    ps_commit_tick(&w.c, w.now);
    assert_int_equal(w.c.stage, PS_STAGE_RESCUE);
    cm_beat(&w, W1, PHASE(RUNNING));
    assert_int_equal(ps_commit_deadline(&w.c), w.now + 1); /* of the worker, which is frozen */
    w.now += 1;
    ps_commit_tick(&w.c, w.now);
    cm_take(&w);
    assert_true(w.c.stage != PS_STAGE_RESCUE);
    assert_true(w.c.members[W0].is_lost);
    assert_false(w.c.members[W1].is_lost);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    ps_commit_fini(&w.c);
}

static void a_process_that_ends_while_nodes_are_released_is_not_waited_for(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    conf.rescues = true;
    cm_run(&w, &conf);
    ps_commit_gone(&w.c, W1, w.now);
    ps_commit_rescued(&w.c, w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_RELEASE);
    ps_commit_gone(&w.c, W0, w.now);
    ps_commit_restarted(&w.c, W0, 99, w.now); /* it is named once */
    assert_string_equal(w.c.message, "worker w1 (h:2) is lost: its process has ended; "
                                     "worker w0 (h:1) is lost: its process has ended");
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_RELEASE); /* PS0 has not answered */
    ps_commit_released(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    assert_int_equal(w.over, 1);
    ps_commit_fini(&w.c);
}

static void a_process_that_ended_after_it_gave_its_files_gives_no_state(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    conf.rescues = true;
    cm_run(&w, &conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, PS0, &(ps_status){.code = PS_OK}, w.now);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.c.stage, PS_STAGE_GOING); /* its files are here */
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    assert_int_equal(w.rescued, 0);
    assert_int_equal(w.c.stage, PS_STAGE_RELEASE);
    ps_commit_released(&w.c, W0, w.now);
    cm_take(&w);
    assert_int_equal(w.over, 1); /* neither of the two is waited for */
    ps_commit_fini(&w.c);
}

static void a_process_that_has_ended_does_not_answer_can_commit(void **state)
{
    ps_commit_conf conf = with_restarts();
    cm_world w;

    (void)state;
    cm_begin(&w, &conf);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(QUEUED));
    assert_string_equal(w.c.reason, "NODE_UNREACHABLE");
    assert_true(w.c.members[W1].is_silent);
    assert_false(w.c.is_recovery);
    ps_commit_released(&w.c, W0, w.now);
    ps_commit_released(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.over, 1);
    ps_commit_fini(&w.c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_worker_is_rescued_while_all_servers_are_there),
        cmocka_unit_test(a_lost_server_is_rescued_while_its_copies_are_there),
        cmocka_unit_test(without_servers_any_worker_rescues_the_job),
        cmocka_unit_test(ranks_with_state_are_needed_for_a_rescue),
        cmocka_unit_test(a_member_that_is_silent_for_its_lease_gives_nothing_any_more),
        cmocka_unit_test(a_process_that_ends_while_nodes_are_released_is_not_waited_for),
        cmocka_unit_test(a_process_that_ended_after_it_gave_its_files_gives_no_state),
        cmocka_unit_test(a_process_that_has_ended_does_not_answer_can_commit),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
