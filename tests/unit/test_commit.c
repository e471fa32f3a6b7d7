/* SPDX-License-Identifier: Apache-2.0 */
/* test_commit.c - one attempt of a job, without a socket and without a clock. */
#include "tests/support/commit_world.h"

#include <stdio.h>
#include <string.h>

static void all_is_well_and_the_job_is_done(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(w.asked[i], 1);
        assert_int_equal(w.prepared[i], 1);
        assert_int_equal(w.started[i], 1);
        assert_int_equal(w.opened[i], 1);
    }
    cm_beat(&w, W0, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(RUNNING));
    cm_beat(&w, W1, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(RUNNING));
    cm_beat(&w, PS0, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(COLLECTING));
    assert_int_equal(w.collected[PS0], 1);
    cm_collect_all(&w);
    assert_int_equal(w.stored, 1);
    assert_int_equal(w.released[W0], 0); /* not before its files are safe */
    cm_store(&w);
    assert_int_equal(w.released[W0], 1);
    assert_int_equal(w.c.state, STATE(COLLECTING)); /* until the nodes are free */
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(DONE));
    assert_int_equal(w.over, 1);
    assert_int_equal(w.changed, 5); /* CAN, PRE, DO, RUNNING, COLLECTING */
    ps_commit_fini(&w.c);
}

static void a_busy_node_names_the_job_that_holds_it(void **state)
{
    ps_commit_conf named = cm_conf;
    cm_world w;

    (void)state;
    named.nodes_are_named = true;
    cm_begin(&w, &named);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_busy(&w.c, W1, "w1", "job other-1 (attempt 2, RUNNING)", w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    assert_string_equal(w.c.reason, "NODE_BUSY");
    assert_string_equal(w.c.message, "worker w1 (h:2) is held by job other-1 (attempt 2, RUNNING)");
    assert_int_equal(w.released[W0], 1);
    assert_int_equal(w.released[PS0], 1); /* it may have been reserved meanwhile */
    assert_int_equal(w.released[W1], 0);  /* it holds nothing of ours */
    cm_store(&w);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void a_busy_node_fails_a_job_that_may_not_wait(void **state)
{
    ps_commit_conf hurried = cm_conf;
    cm_world w;

    (void)state;
    hurried.fails_if_busy = true;
    cm_begin(&w, &hurried);
    ps_commit_busy(&w.c, W1, "w1", "job other-1", w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    assert_string_equal(w.c.reason, "NODE_BUSY");
    assert_string_equal(w.c.message, "worker w1 (h:2) is held by job other-1");
    cm_store(&w);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void a_busy_node_that_nobody_named_sends_the_job_back_to_the_queue(void **state)
{
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    ps_commit_busy(&w.c, W1, "w1", "job other-1", w.now);
    cm_take(&w);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    assert_int_equal(w.stored, 0);
    assert_int_equal(w.over, 1);
    ps_commit_fini(&w.c);
}

/* Two of three are silent. */
static void keep_silent(cm_world *w, const ps_commit_conf *with)
{
    cm_begin(w, with);
    ps_commit_reserved(&w->c, W0, "w0", 7, w->now);
    cm_tick(w, with->can_commit_us - 1);
    assert_int_equal(w->c.outcome, 0);
    assert_int_equal(ps_commit_deadline(&w->c), w->now + 1);
    cm_tick(w, 1);
    assert_string_equal(w->c.reason, "CAN_COMMIT_TIMEOUT");
    assert_string_equal(
        w->c.message,
        "did not answer CanCommit within 5.0 s: worker w1 (h:2), parameter server ps0 (h:3)");
}

static void silence_at_can_commit_sends_the_job_to_other_nodes(void **state)
{
    const ps_code away[] = {PS_UNAVAILABLE, PS_UNIMPLEMENTED}; /* nobody, or another service */
    cm_world w;

    (void)state;
    keep_silent(&w, &cm_conf);
    ps_commit_released(&w.c, W0, w.now);
    cm_take(&w);
    assert_int_equal(w.c.state, STATE(QUEUED)); /* the silent ones are not waited for twice */
    assert_false(w.c.members[W0].is_silent);
    assert_true(w.c.members[W1].is_silent);
    assert_true(w.c.members[PS0].is_silent);
    assert_false(w.c.is_interrupted); /* it may happen any number of times */
    ps_commit_fini(&w.c);

    for (size_t i = 0; i < sizeof away / sizeof away[0]; i++) {
        cm_begin(&w, &cm_conf);
        ps_commit_refused(&w.c, W1, &(ps_status){.code = away[i], .text = "away"}, w.now);
        assert_int_equal(w.c.outcome, STATE(QUEUED));
        assert_true(w.c.members[W1].is_silent);
        ps_commit_fini(&w.c);
    }
}

static void silence_of_a_node_that_the_job_names_is_its_end(void **state)
{
    ps_commit_conf named = cm_conf;
    cm_world w;

    (void)state;
    named.nodes_are_named = true;
    keep_silent(&w, &named);
    cm_store(&w);
    ps_commit_released(&w.c, W0, w.now);
    cm_take(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void nodes_have_their_time_from_when_the_packages_are_made(void **state)
{
    char whom[80];
    cm_world w = {.now = 100 * S};
    ps_commit_action a;
    size_t i;

    (void)state;
    ps_commit_begin(&w.c, &cm_conf, cm_nodes, NODES, w.now);
    ps_commit_waiting_for(&w.c, w.now, whom, sizeof whom);
    assert_string_equal(whom, "the coordinator");
    ps_commit_started(&w.c, w.now);
    for (i = 0; i < NODES; i++) {
        ps_commit_reserved(&w.c, i, cm_nodes[i].id, 7 + i, w.now);
    }
    while ((a = ps_commit_next(&w.c, &i)) != PS_COMMIT_NOTHING) {
        assert_true(a != PS_COMMIT_PREPARE);
    }
    ps_commit_waiting_for(&w.c, w.now, whom, sizeof whom);
    assert_string_equal(whom, "the coordinator");
    for (int k = 0; k < 80; k++) { /* longer than nodes will have */
        w.now += S;
        for (i = 0; i < NODES; i++) {
            ps_commit_seen(&w.c, i, w.now);
        }
        ps_commit_tick(&w.c, w.now);
    }
    assert_int_equal(w.c.outcome, 0);
    ps_commit_packaged(&w.c, 60 * S, w.now);
    cm_take(&w);
    assert_int_equal(w.prepared[W1], 1);
    for (i = 0; i < NODES; i++) {
        ps_commit_seen(&w.c, i, w.now + 59 * (int64_t)S);
    }
    cm_tick(&w, 60 * S - 1);
    assert_int_equal(w.c.outcome, 0);
    cm_tick(&w, 1);
    assert_string_equal(w.c.reason, "PRE_COMMIT_TIMEOUT");
    ps_commit_fini(&w.c);
}

static void a_coordinator_that_is_too_slow_blames_no_node(void **state)
{
    cm_world w = {.now = 100 * S};

    (void)state;
    ps_commit_begin(&w.c, &cm_conf, cm_nodes, NODES, w.now);
    cm_tick(&w, cm_conf.find_us);
    assert_string_equal(w.c.reason, "PACKAGE_TIMEOUT");
    assert_string_equal(w.c.message,
                        "the coordinator did not make the packages of the job within 600.0 s");
    assert_false(w.c.members[W1].is_lost);
    ps_commit_fini(&w.c);
}

static void one_node_under_two_addresses_is_refused(void **state)
{
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_reserved(&w.c, W1, "w0", 7, w.now);
    cm_take(&w);
    assert_string_equal(w.c.reason, "NODE_TWICE");
    ps_commit_fini(&w.c);
}

static void the_first_ready_starts_the_barrier_s_clock(void **state)
{
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    cm_reserve_all(&w);
    cm_prepare_all(&w);
    cm_tick(&w, 7 * S); /* DoCommit is under way */
    for (size_t i = 0; i < NODES; i++) {
        ps_commit_seen(&w.c, i, w.now);
    }
    cm_ready_one(&w, W0);
    assert_int_equal(w.opened[W0], 0); /* answered when all are there */
    for (size_t i = 0; i < NODES; i++) {
        cm_beat(&w, i, PHASE(READY));
    }
    cm_tick(&w, 6 * S);
    assert_int_equal(w.c.outcome, 0);
    for (size_t i = 0; i < NODES; i++) {
        cm_beat(&w, i, PHASE(READY));
    }
    cm_tick(&w, 4 * S);
    assert_string_equal(w.c.reason, "READY_TIMEOUT");
    assert_string_equal(w.c.message, "did not come to the barrier within 10.0 s: worker w1 (h:2), "
                                     "parameter server ps0 (h:3)");
    assert_int_equal(w.released[W0], 1); /* everybody rolls back */
    assert_int_equal(w.opened[W0], 0);
    ps_commit_fini(&w.c);
}

static void no_ready_at_all_ends_it_too(void **state)
{
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    cm_reserve_all(&w);
    cm_prepare_all(&w);
    for (size_t i = 0; i < NODES; i++) {
        ps_commit_seen(&w.c, i, w.now + 5 * S);
    }
    cm_tick(&w, 10 * S);
    assert_string_equal(w.c.reason, "READY_TIMEOUT");
    ps_commit_fini(&w.c);
}

static void a_ready_of_another_process_is_aborted(void **state)
{
    cm_world w;
    ps_status st;

    (void)state;
    cm_begin(&w, &cm_conf);
    cm_reserve_all(&w);
    cm_prepare_all(&w);
    st = ps_commit_ready(&w.c, W0, 99, w.now);
    assert_int_equal(st.code, PS_ABORTED);
    ps_commit_fini(&w.c);
}

static void a_ready_repeated_after_the_start_is_answered_again(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_ready_one(&w, W0);
    assert_int_equal(w.opened[W0], 2);
    ps_commit_fini(&w.c);
}

static void a_silent_node_is_lost_when_its_lease_is_over(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_tick(&w, 5 * S);
    cm_beat(&w, W0, PHASE(RUNNING));
    cm_beat(&w, PS0, PHASE(RUNNING));
    cm_tick(&w, 3 * S);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_string_equal(w.c.message, "worker w1 (h:2) is lost: no heartbeat for 8.0 s");
    assert_int_equal(w.released[W1], 1);  /* it may live behind a cut link */
    assert_int_equal(w.released[W0], 0);  /* it has curves, as far as they go */
    assert_int_equal(w.released[PS0], 0); /* and it weights */
    assert_int_equal(w.collected[W0], 1);
    assert_int_equal(w.collected[PS0], 1);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    cm_take(&w);
    cm_store(&w);
    assert_int_equal(w.released[W0], 1);
    ps_commit_released(&w.c, W0, w.now);
    ps_commit_released(&w.c, PS0, w.now);
    cm_take(&w);
    assert_int_equal(w.c.state, STATE(FAILED)); /* nobody waits for the dead */
    ps_commit_fini(&w.c);
}

static void a_restarted_node_is_lost_for_the_attempt(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_restarted(&w.c, PS0, 99, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "parameter server ps0"));
    ps_commit_fini(&w.c);
}

static void a_node_restarted_before_it_answered_sends_the_job_back_to_the_queue(void **state)
{
    ps_member known[NODES];
    cm_world w = {.now = 100 * S};

    (void)state;
    memcpy(known, cm_nodes, sizeof known);
    known[W1].incarnation = 8;
    ps_commit_begin(&w.c, &cm_conf, known, NODES, w.now);
    ps_commit_started(&w.c, w.now);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_restarted(&w.c, W1, 99, w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(QUEUED));
    assert_int_equal(w.released[W0], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    ps_commit_fini(&w.c);
}

/* The server keeps saying that it lacks what w1 should have brought. */
static void lack_w1(cm_world *w, const ps_commit_conf *with)
{
    const uint32_t one[] = {1};

    cm_run(w, with);
    cm_beat(w, W0, PHASE(FINISHED));
    cm_beat(w, W1, PHASE(FINISHED));
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(w->c.state, STATE(RUNNING));
        assert_int_equal(w->c.outcome, 0);
        ps_commit_waits(&w->c, PS0, 0, NULL, 0, one, 1);
        cm_beat(w, PS0, PHASE(RUNNING));
    }
}

static void who_says_that_it_has_finished_and_has_not_fails(void **state)
{
    ps_commit_conf asp = cm_conf;
    cm_world w;

    (void)state;
    lack_w1(&w, &cm_conf);
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_string_equal(w.c.message, "worker w1 (h:2) failed: it says that it has finished, but "
                                     "contributions of its rank 1 are missing on ps0");
    ps_commit_fini(&w.c);
    asp.survives_loss = true;
    lack_w1(&w, &asp); /* it is not lost, it lies */
    assert_string_equal(w.c.reason, "NODE_FAILED");
    ps_commit_fini(&w.c);
}

static void a_server_that_lacks_nothing_holds_up_no_end(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_beat(&w, W0, PHASE(FINISHED));
    cm_beat(&w, W1, PHASE(FINISHED));
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(w.c.state, STATE(RUNNING));
        cm_beat(&w, PS0, PHASE(RUNNING));
    }
    assert_int_equal(w.c.state, STATE(COLLECTING));
    ps_commit_fini(&w.c);
}

static void one_idle_beat_may_be_late_two_are_the_truth(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_beat(&w.c, W1, 8, false, PHASE(IDLE), &cm_ok, w.now);
    assert_int_equal(w.c.outcome, 0);
    ps_commit_beat(&w.c, W1, 8, false, PHASE(IDLE), &cm_ok, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "no longer holds the job"));
    ps_commit_fini(&w.c);
}

static void asp_goes_on_without_a_lost_worker(void **state)
{
    ps_commit_conf asp = cm_conf;
    cm_world w;

    (void)state;
    asp.survives_loss = true;
    cm_run(&w, &asp);
    cm_tick(&w, 5 * S);
    cm_beat(&w, W0, PHASE(RUNNING));
    cm_beat(&w, PS0, PHASE(RUNNING));
    cm_tick(&w, 3 * S);
    assert_int_equal(w.c.outcome, 0);
    assert_int_equal(ps_commit_workers_alive(&w.c), 1);
    assert_int_equal(w.released[W1], 1);
    assert_int_equal(w.spared[W1], 1);
    assert_string_equal(w.c.members[W1].spared.reason, "NODE_LOST");
    assert_string_equal(
        w.c.members[W1].spared.message,
        "worker w1 (h:2) is lost: no heartbeat for 8.0 s; the job goes on without it");
    cm_beat(&w, W0, PHASE(FINISHED));
    cm_beat(&w, PS0, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(COLLECTING));
    assert_int_equal(w.collected[W1], 0);
    assert_int_equal(w.spared[W0] + w.spared[W1] + w.spared[PS0], 1);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void asp_collects_when_the_last_unfinished_worker_is_lost(void **state)
{
    ps_commit_conf asp = cm_conf;
    cm_world w;

    (void)state;
    asp.survives_loss = true;
    cm_run(&w, &asp);
    cm_beat(&w, W0, PHASE(FINISHED));
    ps_commit_restarted(&w.c, W1, 99, w.now);
    cm_take(&w);
    assert_int_equal(w.c.state, STATE(RUNNING)); /* the server does not know of the loss yet */
    cm_beat(&w, PS0, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(COLLECTING));
    ps_commit_fini(&w.c);
}

static void asp_fails_without_workers_and_without_a_server(void **state)
{
    ps_commit_conf asp = cm_conf;
    cm_world w;

    (void)state;
    asp.survives_loss = true;
    cm_run(&w, &asp);
    ps_commit_restarted(&w.c, W1, 99, w.now);
    assert_int_equal(w.c.outcome, 0);
    ps_commit_restarted(&w.c, W0, 99, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "worker w0"));
    ps_commit_fini(&w.c);

    cm_run(&w, &asp);
    ps_commit_restarted(&w.c, PS0, 99, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    ps_commit_fini(&w.c);
}

static void files_that_nobody_could_keep_are_their_node_s_fault(void **state)
{
    ps_status bad = ps_fail(PS_INVALID_ARGUMENT, "y is no file's name");
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, W0, &bad, w.now);
    assert_string_equal(w.c.reason, "COLLECT_FAILED");
    ps_commit_fini(&w.c);
}

/* Whatever the code, and even if the job could go on without the node or be tried again. */
static void a_divergence_fails_the_job_with_a_reason_of_its_own(void **state)
{
    static const ps_code codes[] = {PS_INTERNAL, PS_INVALID_ARGUMENT, PS_UNAVAILABLE};
    ps_commit_conf survivor = cm_conf;

    (void)state;
    survivor.survives_loss = true;
    for (size_t i = 0; i < 6; i++) {
        ps_status nan = ps_fail(codes[i % 3], "rank 1, step 12: the loss is not finite");
        cm_world w;

        cm_run(&w, i < 3 ? &cm_conf : &survivor);
        ps_commit_diverged(&w.c, W1);
        ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &nan, w.now);
        cm_take(&w);
        assert_int_equal(w.c.outcome, STATE(FAILED));
        assert_string_equal(w.c.reason, "DIVERGED");
        assert_string_equal(w.c.message, "worker w1 (h:2): training has diverged: rank 1, step 12: "
                                         "the loss is not finite");
        ps_commit_fini(&w.c);
        cm_run(&w, &cm_conf); /* and a model that is not finite */
        cm_finish_workers(&w);
        ps_commit_diverged(&w.c, PS0);
        ps_commit_collected(&w.c, PS0, &nan, w.now);
        assert_string_equal(w.c.reason, "DIVERGED");
        ps_commit_fini(&w.c);
    }
}

static void a_node_s_own_failure_ends_the_job_and_its_files_are_saved(void **state)
{
    ps_status nan = ps_fail(PS_DATA_LOSS, "loss is not finite at step 12");
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &nan, w.now);
    cm_take(&w);
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_string_equal(w.c.message, "worker w1 (h:2) failed: loss is not finite at step 12");
    assert_int_equal(w.collected[W1], 1);
    assert_int_equal(w.collected[W0], 1);
    assert_int_equal(w.collected[PS0], 1);
    assert_int_equal(w.released[PS0], 0);
    assert_int_equal(w.released[W1], 0);
    ps_commit_collected(&w.c, W1, &cm_ok, w.now);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    cm_take(&w);
    cm_store(&w);
    assert_int_equal(w.released[W1], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

/* Whoever cancels a job has seen enough of it, and wants what there is. */
static void a_cancelled_job_gives_its_files_before_its_nodes_are_let_go(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_cancel(&w.c, "asked", w.now);
    cm_take(&w);
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(w.collected[i], 1);
        assert_int_equal(w.released[i], 0);
    }
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, PS0, &cm_ok, w.now);
    cm_tick(&w, 11 * S); /* nobody waits for long */
    cm_store(&w);
    assert_int_equal(w.released[W1], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(CANCELLED));
    assert_string_equal(w.c.message, "asked");
    ps_commit_fini(&w.c);
}

static void a_failure_blamed_on_a_peer_waits_to_see_who_is_dead(void **state)
{
    ps_status cut = ps_fail(PS_UNAVAILABLE, "push to h:3: connection reset");
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_beat(&w.c, W0, 7, true, PHASE(FAILED), &cut, w.now);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &cut, w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, 0);
    cm_tick(&w, 8 * S - 1);
    cm_beat(&w, W0, PHASE(FAILED));
    cm_beat(&w, W1, PHASE(FAILED));
    cm_tick(&w, 1);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "parameter server ps0"));
    ps_commit_fini(&w.c);
}

static void a_failure_blamed_on_a_peer_is_its_own_when_all_peers_live(void **state)
{
    ps_status cut = ps_fail(PS_UNAVAILABLE, "push to h:3: connection reset");
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    ps_commit_beat(&w.c, W0, 7, true, PHASE(FAILED), &cut, w.now);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(w.c.outcome, 0);
        cm_beat(&w, W1, PHASE(RUNNING));
        cm_beat(&w, PS0, PHASE(RUNNING));
    }
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_non_null(strstr(w.c.message, "worker w0 (h:1) failed: push to h:3"));
    ps_commit_fini(&w.c);
}

static void files_that_do_not_come_fail_the_job_by_name(void **state)
{
    cm_world w;

    (void)state;
    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_collected(&w.c, W1, &cm_ok, w.now);
    for (int k = 0; k < 24; k++) {
        cm_tick(&w, 5 * S);
        if (k < 23) {
            cm_beat(&w, PS0, PHASE(FINISHED));
        }
    }
    assert_string_equal(w.c.reason, "COLLECT_TIMEOUT");
    assert_non_null(strstr(w.c.message, "parameter server ps0"));
    ps_commit_fini(&w.c);
}

static void a_result_that_cannot_be_stored_is_a_failure(void **state)
{
    const ps_status bad[] = {
        ps_fail(PS_DATA_LOSS, "weights of server 0 have 3 bytes instead of 4"),
        ps_fail(PS_FAILED_PRECONDITION, "own.lua: reduce and finish: code:1: ..."),
    };
    static const char *const reasons[] = {"STORE_FAILED", "CODE_FAILED"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cm_world w;

        cm_run(&w, &cm_conf);
        cm_finish_workers(&w);
        cm_collect_all(&w);
        ps_commit_stored(&w.c, &bad[i], w.now);
        cm_take(&w);
        cm_release_all(&w);
        assert_int_equal(w.c.state, STATE(FAILED));
        assert_string_equal(w.c.reason, reasons[i]);
        ps_commit_fini(&w.c);
    }
}

static void an_adopted_run_goes_on_when_its_nodes_are_heard_of(void **state)
{
    cm_world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt(&w.c, &cm_conf, cm_nodes, NODES, STATE(RUNNING), w.now);
    cm_take(&w);
    cm_tick(&w, 4 * S);
    for (size_t i = 0; i < NODES; i++) {
        cm_beat(&w, i, PHASE(RUNNING));
    }
    cm_tick(&w, 5 * S);
    assert_int_equal(w.c.outcome, 0);
    cm_finish_workers(&w);
    assert_int_equal(w.c.state, STATE(COLLECTING));
    ps_commit_fini(&w.c);
}

static void an_adopted_run_fails_when_a_node_stays_silent(void **state)
{
    cm_world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt(&w.c, &cm_conf, cm_nodes, NODES, STATE(RUNNING), w.now);
    cm_tick(&w, 4 * S);
    cm_beat(&w, W0, PHASE(RUNNING));
    cm_beat(&w, PS0, PHASE(RUNNING));
    cm_tick(&w, 4 * S);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "worker w1"));
    ps_commit_fini(&w.c);
}

static void an_adopted_end_only_releases(void **state)
{
    cm_world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt_end(&w.c, &cm_conf, cm_nodes, NODES, STATE(COLLECTING), STATE(DONE), "", "",
                        true, w.now);
    cm_take(&w);
    assert_int_equal(w.stored, 0);
    assert_int_equal(w.released[W1], 1);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void an_adopted_end_that_was_not_stored_is(void **state)
{
    cm_world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt_end(&w.c, &cm_conf, cm_nodes, NODES, STATE(RUNNING), STATE(FAILED), "R", "m",
                        false, w.now);
    cm_take(&w);
    assert_int_equal(w.stored, 1);
    cm_store(&w);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    assert_string_equal(w.c.reason, "R");
    ps_commit_fini(&w.c);
}

static void it_says_who_is_waited_for(void **state)
{
    char text[100];
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    ps_commit_reserved(&w.c, W1, "w1", 8, w.now);
    ps_commit_waiting_for(&w.c, w.now, text, sizeof text);
    assert_string_equal(text, "w0, ps0");
    ps_commit_fini(&w.c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well_and_the_job_is_done),
        cmocka_unit_test(a_busy_node_names_the_job_that_holds_it),
        cmocka_unit_test(a_busy_node_fails_a_job_that_may_not_wait),
        cmocka_unit_test(a_busy_node_that_nobody_named_sends_the_job_back_to_the_queue),
        cmocka_unit_test(silence_at_can_commit_sends_the_job_to_other_nodes),
        cmocka_unit_test(silence_of_a_node_that_the_job_names_is_its_end),
        cmocka_unit_test(nodes_have_their_time_from_when_the_packages_are_made),
        cmocka_unit_test(a_coordinator_that_is_too_slow_blames_no_node),
        cmocka_unit_test(one_node_under_two_addresses_is_refused),
        cmocka_unit_test(the_first_ready_starts_the_barrier_s_clock),
        cmocka_unit_test(no_ready_at_all_ends_it_too),
        cmocka_unit_test(a_ready_of_another_process_is_aborted),
        cmocka_unit_test(a_ready_repeated_after_the_start_is_answered_again),
        cmocka_unit_test(a_silent_node_is_lost_when_its_lease_is_over),
        cmocka_unit_test(a_restarted_node_is_lost_for_the_attempt),
        cmocka_unit_test(a_node_restarted_before_it_answered_sends_the_job_back_to_the_queue),
        cmocka_unit_test(who_says_that_it_has_finished_and_has_not_fails),
        cmocka_unit_test(a_server_that_lacks_nothing_holds_up_no_end),
        cmocka_unit_test(one_idle_beat_may_be_late_two_are_the_truth),
        cmocka_unit_test(asp_goes_on_without_a_lost_worker),
        cmocka_unit_test(asp_collects_when_the_last_unfinished_worker_is_lost),
        cmocka_unit_test(asp_fails_without_workers_and_without_a_server),
        cmocka_unit_test(a_divergence_fails_the_job_with_a_reason_of_its_own),
        cmocka_unit_test(a_node_s_own_failure_ends_the_job_and_its_files_are_saved),
        cmocka_unit_test(a_cancelled_job_gives_its_files_before_its_nodes_are_let_go),
        cmocka_unit_test(a_failure_blamed_on_a_peer_waits_to_see_who_is_dead),
        cmocka_unit_test(a_failure_blamed_on_a_peer_is_its_own_when_all_peers_live),
        cmocka_unit_test(files_that_do_not_come_fail_the_job_by_name),
        cmocka_unit_test(a_result_that_cannot_be_stored_is_a_failure),
        cmocka_unit_test(an_adopted_run_goes_on_when_its_nodes_are_heard_of),
        cmocka_unit_test(an_adopted_run_fails_when_a_node_stays_silent),
        cmocka_unit_test(an_adopted_end_only_releases),
        cmocka_unit_test(an_adopted_end_that_was_not_stored_is),
        cmocka_unit_test(files_that_nobody_could_keep_are_their_node_s_fault),
        cmocka_unit_test(it_says_who_is_waited_for),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
