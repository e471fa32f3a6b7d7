/* SPDX-License-Identifier: Apache-2.0 */
/* test_recoveries.c - which losses send a job back to the queue, and what it keeps of them. */
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/domain/recoveries.h"
#include "tests/support/commit_world.h"

#include <string.h>

static uint64_t step_of(const Psgd__V1__Job *job)
{
    return job->progress != NULL ? job->progress->step : 0;
}

static ps_commit_conf with_restarts(bool workers, bool servers)
{
    ps_commit_conf conf = cm_conf;

    conf.restarts_workers = workers;
    conf.restarts_servers = servers;
    return conf;
}

static void expect(const cm_world *w, Psgd__V1__JobState outcome, const char *reason)
{
    assert_int_equal(w->c.outcome, outcome);
    assert_string_equal(w->c.reason, reason);
    assert_int_equal(w->c.is_recovery, outcome == STATE(QUEUED));
}

static void freeze(cm_world *w, size_t node)
{
    for (unsigned k = 0; k < 9 && w->c.outcome == 0; k++) {
        for (size_t i = 0; i < NODES; i++) {
            if (i != node) {
                cm_beat(w, i, PHASE(RUNNING));
            }
        }
        cm_tick(w, S);
    }
}

static void a_lost_node_sends_the_job_back_to_the_queue(void **state)
{
    (void)state;
    for (size_t node = 0; node < NODES; node++) {
        for (unsigned on = 0; on < 4; on++) {
            ps_commit_conf conf = with_restarts(on & 1, on & 2);
            bool is_on = node == PS0 ? conf.restarts_servers : conf.restarts_workers;
            cm_world w;

            cm_run(&w, &conf);
            freeze(&w, node);
            expect(&w, is_on ? STATE(QUEUED) : STATE(FAILED), "NODE_LOST");
            assert_true(w.c.members[node].is_lost);
            if (is_on) {
                assert_int_equal(w.collected[W0], 0); /* another attempt makes the files */
                cm_release_all(&w);
                assert_int_equal(w.c.state, STATE(QUEUED));
                assert_int_equal(w.stored, 0);
                assert_int_equal(w.over, 1);
            }
            ps_commit_fini(&w.c);
        }
    }
}

static void a_lost_server_sends_a_job_back_that_would_go_on_without_the_workers(void **state)
{
    ps_commit_conf conf = with_restarts(false, true);
    cm_world w;

    (void)state;
    conf.lease_us = 2 * conf.pre_commit_us; /* so that they are lost together */
    for (unsigned survives = 0; survives < 2; survives++) {
        conf.survives_loss = survives;
        cm_begin(&w, &conf);
        cm_reserve_all(&w);
        cm_tick(&w, conf.pre_commit_us + S); /* all three are lost at once */
        expect(&w, survives ? STATE(QUEUED) : STATE(FAILED), "PRE_COMMIT_TIMEOUT");
        ps_commit_fini(&w.c);
    }
    cm_begin(&w, &conf); /* a worker alone */
    cm_reserve_all(&w);
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void fail_with(cm_world *w, ps_code code)
{
    ps_commit_conf conf = with_restarts(true, true);
    ps_status why = {.code = code, .text = "why"};

    cm_run(w, &conf);
    ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &why, w->now);
    for (unsigned k = 0; k < 2; k++) {
        cm_beat(w, W0, PHASE(RUNNING));
        cm_beat(w, PS0, PHASE(RUNNING));
    }
}

static void only_failures_that_another_attempt_can_mend_do(void **state)
{
    cm_world w;

    (void)state;
    for (ps_code code = PS_CANCELLED; code <= PS_UNAUTHENTICATED; code++) {
        bool mends = code == PS_UNAVAILABLE || code == PS_DEADLINE_EXCEEDED || code == PS_ABORTED ||
                     code == PS_CANCELLED || code == PS_RESOURCE_EXHAUSTED;

        fail_with(&w, code);
        expect(&w, mends ? STATE(QUEUED) : STATE(FAILED), "NODE_FAILED");
        ps_commit_fini(&w.c);
    }
}

static void before_training_too(void **state)
{
    const ps_commit_conf conf = with_restarts(true, true);
    /* of no process, of a frozen one, of one that is being stopped, in a call or before it, and of
     * another service that has its port */
    const ps_code away[] = {PS_UNAVAILABLE, PS_DEADLINE_EXCEEDED, PS_CANCELLED, PS_ABORTED,
                            PS_UNIMPLEMENTED};
    const ps_status bad = {.code = PS_INVALID_ARGUMENT, .text = "bad"};
    cm_world w;

    (void)state;
    for (size_t i = 0; i < sizeof away / sizeof away[0]; i++) {
        cm_begin(&w, &conf);
        cm_reserve_all(&w);
        ps_commit_refused(&w.c, W1, &(ps_status){.code = away[i], .text = "away"}, w.now);
        cm_take(&w);
        expect(&w, STATE(QUEUED), "NODE_UNREACHABLE");
        ps_commit_fini(&w.c);
    }

    cm_begin(&w, &conf);
    cm_reserve_all(&w);
    ps_commit_refused(&w.c, W1, &bad, w.now); /* the job's own fault */
    cm_take(&w);
    expect(&w, STATE(FAILED), "PRE_COMMIT_FAILED");
    ps_commit_fini(&w.c);

    cm_begin(&w, &conf);
    cm_reserve_all(&w);
    cm_prepare_all(&w);
    cm_ready_one(&w, W0);
    for (unsigned k = 0; k < 11 && w.c.outcome == 0; k++) {
        for (size_t i = 0; i < NODES; i++) {
            cm_beat(&w, i, PHASE(READY));
        }
        cm_tick(&w, S);
    }
    expect(&w, STATE(QUEUED), "READY_TIMEOUT");
    ps_commit_fini(&w.c);
}

static void a_process_that_is_gone_is_lost_at_once(void **state)
{
    const ps_commit_conf conf = with_restarts(true, true);
    cm_world w;

    (void)state;
    cm_run(&w, &conf);
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    assert_string_equal(w.c.message, "parameter server ps0 (h:3) is lost: its process has ended");
    assert_true(w.c.members[PS0].is_lost);
    ps_commit_gone(&w.c, W0, w.now); /* the end is decided */
    assert_string_equal(w.c.reason, "NODE_LOST");
    ps_commit_fini(&w.c);

    cm_run(&w, &cm_conf);
    cm_finish_workers(&w);
    ps_commit_collected(&w.c, W0, &cm_ok, w.now);
    ps_commit_gone(&w.c, W0, w.now); /* its files are here */
    assert_int_equal(w.c.outcome, 0);
    ps_commit_gone(&w.c, W1, w.now);
    expect(&w, STATE(FAILED), "NODE_LOST");
    ps_commit_fini(&w.c);
}

static void a_cancelled_or_lying_one_does_not(void **state)
{
    const ps_commit_conf conf = with_restarts(true, true);
    cm_world w;

    (void)state;
    cm_run(&w, &conf);
    ps_commit_cancel(&w.c, "cancelled by a client", w.now);
    expect(&w, STATE(CANCELLED), "CANCELLED");
    ps_commit_fini(&w.c);

    cm_run(&w, &conf);
    ps_commit_lied(&w.c, W0, "it has not", w.now);
    expect(&w, STATE(FAILED), "NODE_FAILED");
    ps_commit_fini(&w.c);
}

/* --- what the job keeps ------------------------------------------------------- */

static Psgd__V1__Job *new_job(void)
{
    const Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    Psgd__V1__Job *job = ps_job_create(&spec, 0);

    ps_time_set(&job->start_time, 100 * S);
    return job;
}

static void lose(Psgd__V1__Job *job, int64_t wall_us, uint64_t step)
{
    const ps_commit_conf conf = with_restarts(true, true);
    cm_world w;

    cm_run(&w, &conf);
    freeze(&w, W1);
    job->attempt++;
    ps_job_progress(job)->step = step;
    ps_recovery_add(job, &w.c, step_of(job), w.now, wall_us);
    ps_commit_fini(&w.c);
}

/* What is stored between the loss and the end of the attempt is part of the recovery. */
static void a_loss_is_noticed_when_the_outcome_is_decided(void **state)
{
    const ps_commit_conf conf = with_restarts(true, true);
    Psgd__V1__Job *job = new_job();
    cm_world w;

    (void)state;
    cm_run(&w, &conf);
    freeze(&w, W1);
    job->attempt++;
    ps_recovery_add(job, &w.c, step_of(job), w.now + 3 * S, 113 * S);
    assert_int_equal(job->recoveries[0]->notice_time->seconds, 110);
    assert_float_equal(job->recoveries[0]->silent_seconds, 8, 1e-6);
    assert_float_equal(job->recoveries[0]->train_seconds, 10, 1e-6);
    ps_recovery_close(job, 0, 114 * S);
    assert_float_equal(job->recoveries[0]->seconds, 4, 1e-6);
    ps_commit_fini(&w.c);
    psgd__v1__job__free_unpacked(job, NULL);
}

static void the_time_that_losses_cost_is_counted(void **state)
{
    Psgd__V1__Job *job = new_job();
    const Psgd__V1__Recovery *r;

    (void)state;
    assert_false(ps_recovery_is_open(job));
    lose(job, 110 * S, 100); /* 10 s for 100 steps */
    assert_true(ps_recovery_is_open(job));
    r = job->recoveries[0];
    assert_string_equal(r->reason, "NODE_LOST");
    assert_int_equal(r->n_node_ids, 1);
    assert_string_equal(r->node_ids[0], "w1");
    assert_float_equal(r->silent_seconds, 8, 1e-6);
    assert_int_equal(r->step, 100);
    assert_float_equal(r->train_seconds, 10, 1e-6);
    ps_recovery_close(job, 60, 112 * S); /* 60 of them are kept */
    assert_false(ps_recovery_is_open(job));
    assert_float_equal(r->seconds, 2, 1e-6);
    assert_int_equal(r->from_step, 60);
    assert_float_equal(job->useful_seconds, 6, 1e-6);
    lose(job, 116 * S, 140); /* 4 s for 80 steps */
    lose(job, 117 * S, 140); /* before it trained */
    ps_recovery_close(job, 60, 118 * S);
    assert_float_equal(job->useful_seconds, 6, 1e-6); /* nothing of them is kept */
    ps_recovery_sum_up(job, 124 * S);
    assert_float_equal(job->useful_seconds, 12, 1e-6);
    assert_float_equal(job->goodput, 0.5, 1e-6);
    assert_int_equal(job->restarts, 3);
    psgd__v1__job__free_unpacked(job, NULL);
}

static void recoveries_are_counted_with_what_they_cost(void **state)
{
    Psgd__V1__Job *job = new_job();
    const Psgd__V1__Progress *p;

    (void)state;
    lose(job, 110 * S, 100); /* 10 s for 100 steps */
    ps_recovery_close(job, 60, 112 * S);
    lose(job, 116 * S, 140); /* 4 s for 80 steps */
    lose(job, 117 * S, 140); /* before it trained */
    ps_recovery_close(job, 60, 118 * S);
    p = job->progress;
    assert_int_equal(p->recoveries, 3);
    assert_int_equal(p->rollbacks, 0);
    assert_int_equal(p->steps_repeated, 40 + 80);
    /* 4 s of 10 s and 2 s without training, then 4 s of 4 s, 1 s of 1 s and 2 s */
    assert_float_equal(p->seconds_lost, 4 + 2 + 4 + 5 + 2, 1e-6);
    psgd__v1__job__free_unpacked(job, NULL);
}

static void diverge(Psgd__V1__Job *job, uint64_t step)
{
    const ps_status nan = ps_fail(PS_INTERNAL, "rank 1, step 12: the loss is not finite");
    ps_commit_conf conf = with_restarts(true, true);
    cm_world w;

    conf.rolls_back = true;
    cm_run(&w, &conf);
    ps_commit_diverged(&w.c, W1);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &nan, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "DIVERGED");
    assert_true(w.c.is_rollback);
    cm_release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    ps_job_progress(job)->step = step;
    ps_recovery_add(job, &w.c, step_of(job), w.now, 110 * S);
    ps_commit_fini(&w.c);
}

static void a_divergence_goes_back_and_is_no_restart(void **state)
{
    Psgd__V1__Job *job = new_job();

    (void)state;
    for (unsigned k = 0; k < PS_ALIKE_MAX; k++) {
        diverge(job, 7);
        ps_recovery_close(job, 7, 111 * S);
    }
    assert_int_equal(job->rollbacks, PS_ALIKE_MAX);
    assert_int_equal(job->progress->rollbacks, PS_ALIKE_MAX);
    assert_int_equal(job->restarts, 0);
    assert_false(ps_recovery_fails_alike(job)); /* it has a bound of its own */
    psgd__v1__job__free_unpacked(job, NULL);
}

static void each_rollback_goes_back_twice_as_far(void **state)
{
    Psgd__V1__Job *job = new_job();

    (void)state;
    assert_true(ps_recovery_rollback_limit(job) == UINT64_MAX);
    lose(job, 110 * S, 90);
    assert_true(ps_recovery_rollback_limit(job) == UINT64_MAX); /* not of a loss */
    ps_recovery_close(job, 80, 111 * S);
    diverge(job, 105);
    assert_true(ps_recovery_rollback_limit(job) == UINT64_MAX); /* the newest */
    ps_recovery_close(job, 100, 111 * S);
    assert_true(ps_recovery_rollback_limit(job) == UINT64_MAX);
    diverge(job, 109);
    assert_int_equal(ps_recovery_rollback_limit(job), 99);
    lose(job, 110 * S, 109); /* before the attempt at half the rate trained */
    assert_int_equal(ps_recovery_rollback_limit(job), 99);
    ps_recovery_close(job, 90, 111 * S);
    lose(job, 110 * S, 95);
    assert_true(ps_recovery_rollback_limit(job) == UINT64_MAX);
    ps_recovery_close(job, 90, 111 * S);
    diverge(job, 120);
    assert_int_equal(ps_recovery_rollback_limit(job), 120 - 2 * 19);
    ps_recovery_close(job, 10, 111 * S);
    diverge(job, 20);
    assert_int_equal(ps_recovery_rollback_limit(job), 0);
    psgd__v1__job__free_unpacked(job, NULL);
}

static void the_newest_recoveries_are_kept_and_all_are_counted(void **state)
{
    Psgd__V1__Job *job = new_job();

    (void)state;
    for (unsigned k = 0; k < PS_RECOVERIES_KEPT + 2; k++) {
        lose(job, (200 + k) * (int64_t)S, k);
        ps_recovery_close(job, k, (200 + k) * (int64_t)S);
    }
    assert_int_equal(job->n_recoveries, PS_RECOVERIES_KEPT);
    assert_int_equal(job->restarts, PS_RECOVERIES_KEPT + 2);
    assert_int_equal(job->recoveries[0]->step, 2);
    assert_false(ps_recovery_is_open(job)); /* however short it was */
    psgd__v1__job__free_unpacked(job, NULL);
}

static void failures_that_lead_nowhere_come_to_an_end(void **state)
{
    Psgd__V1__Job *job = new_job();
    ps_commit_conf conf = with_restarts(true, true);
    const ps_status why = {.code = PS_DEADLINE_EXCEEDED, .text = "no weights for 1 s"};
    cm_world w;

    (void)state;
    ps_job_progress(job)->step = 7;
    for (unsigned k = 0; k < PS_ALIKE_MAX; k++) {
        assert_false(ps_recovery_fails_alike(job));
        fail_with(&w, PS_DEADLINE_EXCEEDED);
        ps_recovery_add(job, &w.c, step_of(job), w.now, 110 * S);
        ps_recovery_close(job, 0, 111 * S);
        ps_commit_fini(&w.c);
    }
    assert_int_equal(job->recoveries[0]->n_node_ids, 0);
    assert_true(ps_recovery_fails_alike(job));
    job->recoveries[PS_ALIKE_MAX - 1]->step++; /* it came further */
    assert_false(ps_recovery_fails_alike(job));
    psgd__v1__job__free_unpacked(job, NULL);

    conf.fails_alike = true;
    cm_run(&w, &conf);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &why, w.now);
    for (unsigned k = 0; k < 2; k++) {
        cm_beat(&w, W0, PHASE(RUNNING));
        cm_beat(&w, PS0, PHASE(RUNNING));
    }
    expect(&w, STATE(FAILED), "NODE_FAILED");
    ps_commit_fini(&w.c);
}

static void a_node_that_was_told_to_stop_is_named_and_no_sign_of_a_faulty_job(void **state)
{
    Psgd__V1__Job *job = new_job();
    cm_world w;

    (void)state;
    for (unsigned k = 0; k < PS_ALIKE_MAX; k++) {
        fail_with(&w, PS_CANCELLED);
        expect(&w, STATE(QUEUED), "NODE_FAILED");
        ps_recovery_add(job, &w.c, step_of(job), w.now, 110 * S);
        ps_recovery_close(job, 0, 111 * S);
        assert_int_equal(job->recoveries[k]->n_node_ids, 1);
        assert_string_equal(job->recoveries[k]->node_ids[0], "w1");
        ps_commit_fini(&w.c);
    }
    assert_false(ps_recovery_fails_alike(job));
    psgd__v1__job__free_unpacked(job, NULL);
}

static void a_node_whose_disk_is_full_is_named_and_one_without_memory_is_not(void **state)
{
    (void)state;
    for (unsigned is_disk = 0; is_disk < 2; is_disk++) {
        Psgd__V1__Job *job = new_job();
        cm_world w;

        for (unsigned k = 0; k < PS_ALIKE_MAX; k++) {
            fail_with(&w, PS_RESOURCE_EXHAUSTED);
            if (is_disk) {
                ps_commit_low_disk(&w.c, W1);
            }
            ps_commit_low_disk(&w.c, W0); /* it has not failed */
            expect(&w, STATE(QUEUED), "NODE_FAILED");
            ps_recovery_add(job, &w.c, step_of(job), w.now, 110 * S);
            ps_recovery_close(job, 0, 111 * S);
            assert_int_equal(job->recoveries[k]->n_node_ids, is_disk);
            ps_commit_fini(&w.c);
        }
        if (is_disk) {
            assert_string_equal(job->recoveries[0]->node_ids[0], "w1");
        }
        assert_int_equal(ps_recovery_fails_alike(job), !is_disk);
        psgd__v1__job__free_unpacked(job, NULL);
    }
}

static void a_node_that_an_earlier_coordinator_released_is_not_to_blame(void **state)
{
    const Psgd__V1__JobState states[] = {STATE(RUNNING), STATE(COLLECTING)};
    ps_commit_conf conf = with_restarts(true, true);

    (void)state;
    for (unsigned s = 0; s < 2; s++) {
        Psgd__V1__Job *job = new_job();
        cm_world w;

        for (unsigned k = 0; k < PS_ALIKE_MAX; k++) {
            memset(&w, 0, sizeof w);
            w.now = 100 * S;
            ps_commit_adopt(&w.c, &conf, cm_nodes, NODES, states[s], w.now);
            cm_take(&w);
            for (unsigned beats = 0; beats < 2; beats++) {
                assert_int_equal(w.c.outcome, 0);
                ps_commit_beat(&w.c, W1, cm_nodes[W1].incarnation, false, PHASE(IDLE), &cm_ok,
                               w.now);
            }
            expect(&w, STATE(QUEUED), "COORDINATOR_RESTARTED");
            assert_false(w.c.members[W1].is_lost);
            ps_recovery_add(job, &w.c, step_of(job), w.now, 110 * S);
            ps_recovery_close(job, 0, 111 * S);
            assert_int_equal(job->recoveries[k]->n_node_ids, 0);
            ps_commit_fini(&w.c);
        }
        assert_false(ps_recovery_fails_alike(job));
        psgd__v1__job__free_unpacked(job, NULL);
    }
}

/* Runs an attempt in which w0 gives up because w1 lives but brings nothing. */
static void stall(cm_world *w, const ps_commit_conf *conf)
{
    const ps_status why = {.code = PS_DEADLINE_EXCEEDED, .text = "no weights from ps0"};
    const uint32_t server = 0, rank = 1; /* the server waits for w1 */

    cm_run(w, conf);
    ps_commit_waits(&w->c, W0, 0, &server, 1, NULL, 0);
    ps_commit_waits(&w->c, PS0, 0, NULL, 0, &rank, 1);
    ps_commit_beat(&w->c, W0, 7, true, PHASE(FAILED), &why, w->now);
    for (unsigned k = 0; k < 2; k++) {
        cm_beat(w, W1, PHASE(RUNNING));
        cm_beat(w, PS0, PHASE(RUNNING));
    }
}

static void a_node_that_stalls_in_each_attempt_fails_the_job(void **state)
{
    Psgd__V1__Job *job = new_job();
    ps_commit_conf conf = with_restarts(true, true);
    cm_world w;

    (void)state;
    for (unsigned k = 0; k < PS_ALIKE_MAX; k++) {
        assert_false(ps_recovery_fails_alike(job));
        stall(&w, &conf);
        expect(&w, STATE(QUEUED), "NODE_STALLED");
        ps_recovery_add_spared(job, &w.c, W1, step_of(job), w.now, 109 * S); /* ends no attempt */
        ps_recovery_add(job, &w.c, step_of(job), w.now, 110 * S);
        ps_recovery_close(job, 0, 111 * S);
        ps_commit_fini(&w.c);
    }
    assert_true(ps_recovery_fails_alike(job));
    psgd__v1__job__free_unpacked(job, NULL);
    conf.fails_alike = true;
    stall(&w, &conf);
    expect(&w, STATE(FAILED), "NODE_STALLED");
    ps_commit_fini(&w.c);
}

static void a_loss_that_the_attempt_survives_is_kept_and_is_no_restart(void **state)
{
    Psgd__V1__Job *job = new_job();
    ps_commit_conf conf = with_restarts(true, true);
    ps_member members[NODES];
    const Psgd__V1__Recovery *r;
    cm_world w;

    (void)state;
    conf.survives_loss = true;
    job->attempt = 3;
    cm_run(&w, &conf);
    cm_tick(&w, S);
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    assert_int_equal(w.spared[W1], 1);
    ps_recovery_add_spared(job, &w.c, W1, 40, w.now, 110 * S);
    assert_int_equal(job->n_recoveries, 1);
    r = job->recoveries[0];
    assert_true(r->is_survived);
    assert_int_equal(r->attempt, 3);
    assert_string_equal(r->reason, "NODE_LOST");
    assert_string_equal(r->message,
                        "worker w1 (h:2) is lost: its process has ended; the job goes on "
                        "without it");
    assert_int_equal(r->n_node_ids, 1);
    assert_string_equal(r->node_ids[0], "w1");
    assert_float_equal(r->silent_seconds, 1, 1e-6);
    assert_int_equal(r->step - r->from_step, 0);
    assert_false(ps_recovery_is_open(job));
    assert_int_equal(ps_recovery_step(job, 7), 7);
    assert_int_equal(job->restarts, 0);
    assert_float_equal(ps_recovery_goodput(job, 120 * S, NULL), 1, 1e-6);

    /* A later coordinator knows that the worker is lost, and takes it for no other loss. */
    memcpy(members, cm_nodes, sizeof members);
    ps_recovery_mark_spared(job, members, NODES);
    assert_true(members[W1].is_spared && !members[W0].is_spared && !members[PS0].is_spared);
    ps_commit_fini(&w.c);
    ps_commit_adopt(&w.c, &conf, members, NODES, STATE(RUNNING), w.now);
    assert_int_equal(ps_commit_workers_alive(&w.c), 1);
    ps_commit_gone(&w.c, W1, w.now);
    cm_take(&w);
    assert_int_equal(w.spared[W1], 1);

    /* The loss that ends the attempt names the server alone. */
    ps_commit_gone(&w.c, PS0, w.now);
    cm_take(&w);
    expect(&w, STATE(QUEUED), "NODE_LOST");
    ps_recovery_add(job, &w.c, 50, w.now, 120 * S);
    assert_true(ps_recovery_is_open(job));
    r = job->recoveries[1];
    assert_int_equal(r->n_node_ids, 1);
    assert_string_equal(r->node_ids[0], "ps0");
    ps_recovery_close(job, 45, 122 * S);
    assert_false(ps_recovery_is_open(job));
    assert_float_equal(job->recoveries[0]->seconds, 0, 0); /* it stays as it was */
    assert_int_equal(job->progress->steps_repeated, 5);
    assert_int_equal(job->restarts, 1);
    ps_commit_fini(&w.c);
    memcpy(members, cm_nodes, sizeof members);
    job->attempt = 4; /* another attempt has a new process of that node */
    ps_recovery_mark_spared(job, members, NODES);
    assert_false(members[W1].is_spared);
    psgd__v1__job__free_unpacked(job, NULL);
}

static void a_change_of_nodes_is_no_loss(void **state)
{
    Psgd__V1__Job *job = new_job();
    const ps_commit_conf conf = with_restarts(false, false);
    const Psgd__V1__Recovery *r;
    cm_world w;

    (void)state;
    for (unsigned k = 0; k < PS_ALIKE_MAX; k++) { /* so many of them are no failures alike */
        cm_run(&w, &conf);
        ps_commit_move(&w.c, "SCALED", "to 1 worker", w.now);
        ps_commit_move(&w.c, "JOINED", "too late", w.now);
        cm_take(&w);
        assert_int_equal(w.c.outcome, STATE(QUEUED));
        assert_true(w.c.is_move && !w.c.is_recovery);
        assert_string_equal(w.c.reason, "SCALED");
        r = ps_recovery_add_move(job, &w.c, 50, 108 * S, 110 * S);
        ps_recovery_close(job, 50, 111 * S);
        cm_release_all(&w);
        assert_int_equal(w.over, 1);
        ps_commit_fini(&w.c);
    }
    r = job->recoveries[0];
    assert_true(r->is_planned);
    assert_int_equal(r->ask_time->seconds, 108);
    assert_int_equal(r->step, 50);
    assert_float_equal(r->seconds, 1, 1e-6);
    assert_int_equal(job->restarts, 0);
    assert_false(ps_recovery_fails_alike(job));
    psgd__v1__job__free_unpacked(job, NULL);
}

static void an_undisturbed_job_has_only_useful_time(void **state)
{
    Psgd__V1__Job *job = new_job();

    (void)state;
    ps_recovery_sum_up(job, 103 * S);
    assert_float_equal(job->useful_seconds, 3, 1e-6);
    assert_float_equal(job->goodput, 1, 1e-6);
    psgd__v1__job__free_unpacked(job, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_node_sends_the_job_back_to_the_queue),
        cmocka_unit_test(a_lost_server_sends_a_job_back_that_would_go_on_without_the_workers),
        cmocka_unit_test(only_failures_that_another_attempt_can_mend_do),
        cmocka_unit_test(before_training_too),
        cmocka_unit_test(a_process_that_is_gone_is_lost_at_once),
        cmocka_unit_test(a_cancelled_or_lying_one_does_not),
        cmocka_unit_test(a_loss_is_noticed_when_the_outcome_is_decided),
        cmocka_unit_test(the_time_that_losses_cost_is_counted),
        cmocka_unit_test(the_newest_recoveries_are_kept_and_all_are_counted),
        cmocka_unit_test(recoveries_are_counted_with_what_they_cost),
        cmocka_unit_test(a_divergence_goes_back_and_is_no_restart),
        cmocka_unit_test(each_rollback_goes_back_twice_as_far),
        cmocka_unit_test(failures_that_lead_nowhere_come_to_an_end),
        cmocka_unit_test(a_node_that_was_told_to_stop_is_named_and_no_sign_of_a_faulty_job),
        cmocka_unit_test(a_node_whose_disk_is_full_is_named_and_one_without_memory_is_not),
        cmocka_unit_test(a_node_that_an_earlier_coordinator_released_is_not_to_blame),
        cmocka_unit_test(a_node_that_stalls_in_each_attempt_fails_the_job),
        cmocka_unit_test(a_loss_that_the_attempt_survives_is_kept_and_is_no_restart),
        cmocka_unit_test(a_change_of_nodes_is_no_loss),
        cmocka_unit_test(an_undisturbed_job_has_only_useful_time),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
