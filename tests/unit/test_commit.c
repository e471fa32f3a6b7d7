/* SPDX-License-Identifier: Apache-2.0 */
/* test_commit.c - one attempt of a job, without a socket and without a clock.
 *
 * The matrix at the end walks every state with every event; the tests before it
 * say in words what matters most.
 */
#include "services/coordinator/commit.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define STATE(name) PSGD__V1__JOB_STATE__JOB_STATE_##name
#define PHASE(name) PSGD__V1__NODE_PHASE__NODE_PHASE_##name
#define WORKER PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER
#define PSERVER PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER

enum { NODES = 3, W0 = 0, W1 = 1, PS0 = 2, S = 1000000 };

static const ps_commit_conf conf = {
    .can_commit_us = 5 * S,
    .pre_commit_us = 60 * S,
    .ready_us = 10 * S,
    .lease_us = 8 * S,
    .collect_us = 120 * S,
    .abort_us = 3 * S,
};

static const ps_member nodes[NODES] = {
    {.id = "w0", .address = "h:1", .role = WORKER, .rank = 0},
    {.id = "w1", .address = "h:2", .role = WORKER, .rank = 1},
    {.id = "ps0", .address = "h:3", .role = PSERVER, .rank = 0},
};

static const ps_status ok = {.code = PS_OK};

/* A machine, and what it wanted. */
typedef struct world {
    ps_commit c;
    int64_t now;
    unsigned asked[NODES], prepared[NODES], started[NODES], opened[NODES], collected[NODES],
        released[NODES];
    unsigned changed, stored, over;
} world;

/* Takes all actions; the caller answers them. */
static void take(world *w)
{
    ps_commit_action a;
    size_t i;

    while ((a = ps_commit_next(&w->c, &i)) != PS_COMMIT_NOTHING) {
        switch (a) {
        case PS_COMMIT_ASK:
            w->asked[i]++;
            break;
        case PS_COMMIT_PREPARE:
            w->prepared[i]++;
            break;
        case PS_COMMIT_START:
            w->started[i]++;
            break;
        case PS_COMMIT_OPEN:
            w->opened[i]++;
            break;
        case PS_COMMIT_COLLECT:
            w->collected[i]++;
            break;
        case PS_COMMIT_RELEASE:
            w->released[i]++;
            break;
        case PS_COMMIT_CHANGED:
            w->changed++;
            break;
        case PS_COMMIT_STORE:
            w->stored++;
            break;
        case PS_COMMIT_OVER:
            w->over++;
            break;
        case PS_COMMIT_NOTHING:
            break;
        }
    }
}

static void begin(world *w, const ps_commit_conf *with)
{
    *w = (world){.now = 100 * S};
    ps_commit_begin(&w->c, with, nodes, NODES, w->now);
    take(w);
}

static void reserve_all(world *w)
{
    for (size_t i = 0; i < NODES; i++)
        ps_commit_reserved(&w->c, i, nodes[i].id, 7 + i, w->now);
    take(w);
}

static void prepare_all(world *w)
{
    for (size_t i = 0; i < NODES; i++)
        ps_commit_prepared(&w->c, i, w->now);
    take(w);
}

static void ready_one(world *w, size_t i)
{
    ps_status st = ps_commit_ready(&w->c, i, 7 + i, w->now);

    assert_int_equal(st.code, PS_OK);
    take(w);
}

static void beat(world *w, size_t i, Psgd__V1__NodePhase phase)
{
    ps_commit_beat(&w->c, i, 7 + i, true, phase, &ok, w->now);
    take(w);
}

static void run(world *w, const ps_commit_conf *with)
{
    begin(w, with);
    reserve_all(w);
    prepare_all(w);
    for (size_t i = 0; i < NODES; i++)
        ready_one(w, i);
    assert_int_equal(w->c.state, STATE(RUNNING));
}

static void finish_workers(world *w)
{
    beat(w, W0, PHASE(FINISHED));
    beat(w, W1, PHASE(FINISHED));
}

static void collect_all(world *w)
{
    for (size_t i = 0; i < NODES; i++)
        ps_commit_collected(&w->c, i, &ok, w->now);
    take(w);
}

static void store(world *w)
{
    ps_commit_stored(&w->c, &ok, w->now);
    take(w);
}

static void release_all(world *w)
{
    for (size_t i = 0; i < NODES; i++)
        ps_commit_released(&w->c, i, w->now);
    take(w);
}

static void tick(world *w, int64_t us)
{
    w->now += us;
    ps_commit_tick(&w->c, w->now);
    take(w);
}

static void all_is_well_and_the_job_is_done(void **state)
{
    world w;

    (void)state;
    run(&w, &conf);
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(w.asked[i], 1);
        assert_int_equal(w.prepared[i], 1);
        assert_int_equal(w.started[i], 1);
        assert_int_equal(w.opened[i], 1);
    }
    beat(&w, W0, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(RUNNING));
    beat(&w, W1, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(COLLECTING));
    assert_int_equal(w.collected[PS0], 1);
    collect_all(&w);
    assert_int_equal(w.stored, 1);
    assert_int_equal(w.released[W0], 0); /* not before its files are safe */
    store(&w);
    assert_int_equal(w.released[W0], 1);
    assert_int_equal(w.c.state, STATE(COLLECTING)); /* until the nodes are free */
    release_all(&w);
    assert_int_equal(w.c.state, STATE(DONE));
    assert_int_equal(w.over, 1);
    assert_int_equal(w.changed, 5); /* CAN, PRE, DO, RUNNING, COLLECTING */
    ps_commit_fini(&w.c);
}

static void a_busy_node_names_the_job_that_holds_it(void **state)
{
    ps_commit_conf named = conf;
    world w;

    (void)state;
    named.busy_is_failure = true;
    begin(&w, &named);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_busy(&w.c, W1, "w1", "job other-1 (attempt 2, RUNNING)", w.now);
    take(&w);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    assert_string_equal(w.c.reason, "NODE_BUSY");
    assert_string_equal(w.c.message, "worker w1 (h:2) is held by job other-1 (attempt 2, RUNNING)");
    assert_int_equal(w.released[W0], 1);
    assert_int_equal(w.released[PS0], 1); /* it may have been reserved meanwhile */
    assert_int_equal(w.released[W1], 0);  /* it holds nothing of ours */
    store(&w);
    release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void a_busy_node_that_nobody_named_sends_the_job_back_to_the_queue(void **state)
{
    world w;

    (void)state;
    begin(&w, &conf);
    ps_commit_busy(&w.c, W1, "w1", "job other-1", w.now);
    take(&w);
    release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    assert_int_equal(w.stored, 0);
    assert_int_equal(w.over, 1);
    ps_commit_fini(&w.c);
}

static void silence_at_can_commit_names_everybody_who_is_silent(void **state)
{
    world w;

    (void)state;
    begin(&w, &conf);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    tick(&w, conf.can_commit_us - 1);
    assert_int_equal(w.c.outcome, 0);
    assert_int_equal(ps_commit_deadline(&w.c), w.now + 1);
    tick(&w, 1);
    assert_string_equal(w.c.reason, "CAN_COMMIT_TIMEOUT");
    assert_string_equal(
        w.c.message,
        "did not answer CanCommit within 5.0 s: worker w1 (h:2), parameter server ps0 (h:3)");
    store(&w);
    ps_commit_released(&w.c, W0, w.now);
    take(&w);
    assert_int_equal(w.c.state, STATE(FAILED)); /* the silent ones are not waited for twice */
    ps_commit_fini(&w.c);
}

static void one_node_under_two_addresses_is_refused(void **state)
{
    world w;

    (void)state;
    begin(&w, &conf);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_reserved(&w.c, W1, "w0", 7, w.now);
    take(&w);
    assert_string_equal(w.c.reason, "NODE_TWICE");
    ps_commit_fini(&w.c);
}

static void the_first_ready_starts_the_barrier_s_clock(void **state)
{
    world w;

    (void)state;
    begin(&w, &conf);
    reserve_all(&w);
    prepare_all(&w);
    tick(&w, 7 * S); /* DoCommit is under way */
    for (size_t i = 0; i < NODES; i++)
        ps_commit_seen(&w.c, i, w.now);
    ready_one(&w, W0);
    assert_int_equal(w.opened[W0], 0); /* answered when all are there */
    for (size_t i = 0; i < NODES; i++)
        beat(&w, i, PHASE(READY));
    tick(&w, 6 * S);
    assert_int_equal(w.c.outcome, 0);
    for (size_t i = 0; i < NODES; i++)
        beat(&w, i, PHASE(READY));
    tick(&w, 4 * S);
    assert_string_equal(w.c.reason, "READY_TIMEOUT");
    assert_string_equal(w.c.message, "did not come to the barrier within 10.0 s: worker w1 (h:2), "
                                     "parameter server ps0 (h:3)");
    assert_int_equal(w.released[W0], 1); /* everybody rolls back */
    assert_int_equal(w.opened[W0], 0);
    ps_commit_fini(&w.c);
}

static void no_ready_at_all_ends_it_too(void **state)
{
    world w;

    (void)state;
    begin(&w, &conf);
    reserve_all(&w);
    prepare_all(&w);
    for (size_t i = 0; i < NODES; i++)
        ps_commit_seen(&w.c, i, w.now + 5 * S);
    tick(&w, 10 * S);
    assert_string_equal(w.c.reason, "READY_TIMEOUT");
    ps_commit_fini(&w.c);
}

static void a_ready_of_another_process_is_aborted(void **state)
{
    world w;
    ps_status st;

    (void)state;
    begin(&w, &conf);
    reserve_all(&w);
    prepare_all(&w);
    st = ps_commit_ready(&w.c, W0, 99, w.now);
    assert_int_equal(st.code, PS_ABORTED);
    ps_commit_fini(&w.c);
}

static void a_ready_repeated_after_the_start_is_answered_again(void **state)
{
    world w;

    (void)state;
    run(&w, &conf);
    ready_one(&w, W0);
    assert_int_equal(w.opened[W0], 2);
    ps_commit_fini(&w.c);
}

static void a_silent_node_is_lost_when_its_lease_is_over(void **state)
{
    world w;

    (void)state;
    run(&w, &conf);
    tick(&w, 5 * S);
    beat(&w, W0, PHASE(RUNNING));
    beat(&w, PS0, PHASE(RUNNING));
    tick(&w, 3 * S);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_string_equal(w.c.message, "worker w1 (h:2) is lost: no heartbeat for 8.0 s");
    assert_int_equal(w.released[W0], 1);
    assert_int_equal(w.released[W1], 1); /* it may live behind a cut link */
    store(&w);
    ps_commit_released(&w.c, W0, w.now);
    ps_commit_released(&w.c, PS0, w.now);
    take(&w);
    assert_int_equal(w.c.state, STATE(FAILED)); /* nobody waits for the dead */
    ps_commit_fini(&w.c);
}

static void a_restarted_node_is_lost_for_the_attempt(void **state)
{
    world w;

    (void)state;
    run(&w, &conf);
    ps_commit_restarted(&w.c, PS0, 99, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "parameter server ps0"));
    ps_commit_fini(&w.c);
}

static void a_node_restarted_before_it_answered_sends_the_job_back_to_the_queue(void **state)
{
    ps_member known[NODES];
    world w = {.now = 100 * S};

    (void)state;
    memcpy(known, nodes, sizeof known);
    known[W1].incarnation = 8;
    ps_commit_begin(&w.c, &conf, known, NODES, w.now);
    ps_commit_reserved(&w.c, W0, "w0", 7, w.now);
    ps_commit_restarted(&w.c, W1, 99, w.now);
    take(&w);
    assert_int_equal(w.c.outcome, STATE(QUEUED));
    assert_int_equal(w.released[W0], 1);
    release_all(&w);
    assert_int_equal(w.c.state, STATE(QUEUED));
    ps_commit_fini(&w.c);
}

static void one_idle_beat_may_be_late_two_are_the_truth(void **state)
{
    world w;

    (void)state;
    run(&w, &conf);
    ps_commit_beat(&w.c, W1, 8, false, PHASE(IDLE), &ok, w.now);
    assert_int_equal(w.c.outcome, 0);
    ps_commit_beat(&w.c, W1, 8, false, PHASE(IDLE), &ok, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "no longer holds the job"));
    ps_commit_fini(&w.c);
}

static void asp_goes_on_without_a_lost_worker(void **state)
{
    ps_commit_conf asp = conf;
    world w;

    (void)state;
    asp.survives_loss = true;
    run(&w, &asp);
    tick(&w, 5 * S);
    beat(&w, W0, PHASE(RUNNING));
    beat(&w, PS0, PHASE(RUNNING));
    tick(&w, 3 * S);
    assert_int_equal(w.c.outcome, 0);
    assert_int_equal(ps_commit_workers_alive(&w.c), 1);
    assert_int_equal(w.released[W1], 1);
    beat(&w, W0, PHASE(FINISHED));
    assert_int_equal(w.c.state, STATE(COLLECTING));
    assert_int_equal(w.collected[W1], 0);
    ps_commit_collected(&w.c, W0, &ok, w.now);
    ps_commit_collected(&w.c, PS0, &ok, w.now);
    take(&w);
    assert_int_equal(w.c.outcome, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void asp_collects_when_the_last_unfinished_worker_is_lost(void **state)
{
    ps_commit_conf asp = conf;
    world w;

    (void)state;
    asp.survives_loss = true;
    run(&w, &asp);
    beat(&w, W0, PHASE(FINISHED));
    ps_commit_restarted(&w.c, W1, 99, w.now);
    take(&w);
    assert_int_equal(w.c.state, STATE(COLLECTING));
    ps_commit_fini(&w.c);
}

static void asp_fails_without_workers_and_without_a_server(void **state)
{
    ps_commit_conf asp = conf;
    world w;

    (void)state;
    asp.survives_loss = true;
    run(&w, &asp);
    ps_commit_restarted(&w.c, W1, 99, w.now);
    assert_int_equal(w.c.outcome, 0);
    ps_commit_restarted(&w.c, W0, 99, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "worker w0"));
    ps_commit_fini(&w.c);

    run(&w, &asp);
    ps_commit_restarted(&w.c, PS0, 99, w.now);
    assert_string_equal(w.c.reason, "NODE_LOST");
    ps_commit_fini(&w.c);
}

static void a_node_s_own_failure_ends_the_job_and_its_files_are_saved(void **state)
{
    ps_status nan = ps_fail(PS_DATA_LOSS, "loss is not finite at step 12");
    world w;

    (void)state;
    run(&w, &conf);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &nan, w.now);
    take(&w);
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_string_equal(w.c.message, "worker w1 (h:2) failed: loss is not finite at step 12");
    assert_int_equal(w.collected[W1], 1);
    assert_int_equal(w.collected[W0], 0);
    assert_int_equal(w.released[W0], 1);
    assert_int_equal(w.released[W1], 0);
    ps_commit_collected(&w.c, W1, &ok, w.now);
    take(&w);
    store(&w);
    assert_int_equal(w.released[W1], 1);
    release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    ps_commit_fini(&w.c);
}

static void a_failure_blamed_on_a_peer_waits_to_see_who_is_dead(void **state)
{
    ps_status cut = ps_fail(PS_UNAVAILABLE, "push to h:3: connection reset");
    world w;

    (void)state;
    run(&w, &conf);
    ps_commit_beat(&w.c, W0, 7, true, PHASE(FAILED), &cut, w.now);
    ps_commit_beat(&w.c, W1, 8, true, PHASE(FAILED), &cut, w.now);
    take(&w);
    assert_int_equal(w.c.outcome, 0);
    tick(&w, 8 * S - 1);
    beat(&w, W0, PHASE(FAILED));
    beat(&w, W1, PHASE(FAILED));
    tick(&w, 1);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "parameter server ps0"));
    ps_commit_fini(&w.c);
}

static void a_failure_blamed_on_a_peer_is_its_own_when_all_peers_live(void **state)
{
    ps_status cut = ps_fail(PS_UNAVAILABLE, "push to h:3: connection reset");
    world w;

    (void)state;
    run(&w, &conf);
    ps_commit_beat(&w.c, W0, 7, true, PHASE(FAILED), &cut, w.now);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(w.c.outcome, 0);
        beat(&w, W1, PHASE(RUNNING));
        beat(&w, PS0, PHASE(RUNNING));
    }
    assert_string_equal(w.c.reason, "NODE_FAILED");
    assert_non_null(strstr(w.c.message, "worker w0 (h:1) failed: push to h:3"));
    ps_commit_fini(&w.c);
}

static void files_that_do_not_come_fail_the_job_by_name(void **state)
{
    world w;

    (void)state;
    run(&w, &conf);
    finish_workers(&w);
    ps_commit_collected(&w.c, W0, &ok, w.now);
    ps_commit_collected(&w.c, W1, &ok, w.now);
    for (int k = 0; k < 24; k++) {
        tick(&w, 5 * S);
        if (k < 23)
            beat(&w, PS0, PHASE(FINISHED));
    }
    assert_string_equal(w.c.reason, "COLLECT_TIMEOUT");
    assert_non_null(strstr(w.c.message, "parameter server ps0"));
    ps_commit_fini(&w.c);
}

static void a_result_that_cannot_be_stored_is_a_failure(void **state)
{
    ps_status full = ps_fail(PS_RESOURCE_EXHAUSTED, "no space");
    world w;

    (void)state;
    run(&w, &conf);
    finish_workers(&w);
    collect_all(&w);
    ps_commit_stored(&w.c, &full, w.now);
    take(&w);
    release_all(&w);
    assert_int_equal(w.c.state, STATE(FAILED));
    assert_string_equal(w.c.reason, "STORE_FAILED");
    ps_commit_fini(&w.c);
}

static void an_adopted_run_goes_on_when_its_nodes_are_heard_of(void **state)
{
    world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt(&w.c, &conf, nodes, NODES, STATE(RUNNING), w.now);
    take(&w);
    tick(&w, 4 * S);
    for (size_t i = 0; i < NODES; i++)
        beat(&w, i, PHASE(RUNNING));
    tick(&w, 5 * S);
    assert_int_equal(w.c.outcome, 0);
    finish_workers(&w);
    assert_int_equal(w.c.state, STATE(COLLECTING));
    ps_commit_fini(&w.c);
}

static void an_adopted_run_fails_when_a_node_stays_silent(void **state)
{
    world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt(&w.c, &conf, nodes, NODES, STATE(RUNNING), w.now);
    tick(&w, 4 * S);
    beat(&w, W0, PHASE(RUNNING));
    beat(&w, PS0, PHASE(RUNNING));
    tick(&w, 4 * S);
    assert_string_equal(w.c.reason, "NODE_LOST");
    assert_non_null(strstr(w.c.message, "worker w1"));
    ps_commit_fini(&w.c);
}

static void an_adopted_end_only_releases(void **state)
{
    world w = {.now = 5 * S};

    (void)state;
    ps_commit_adopt_end(&w.c, &conf, nodes, NODES, STATE(COLLECTING), STATE(DONE), "", "", w.now);
    take(&w);
    assert_int_equal(w.stored, 0);
    assert_int_equal(w.released[W1], 1);
    release_all(&w);
    assert_int_equal(w.c.state, STATE(DONE));
    ps_commit_fini(&w.c);
}

static void it_says_who_is_waited_for(void **state)
{
    char text[100];
    world w;

    (void)state;
    begin(&w, &conf);
    ps_commit_reserved(&w.c, W1, "w1", 8, w.now);
    ps_commit_waiting_for(&w.c, text, sizeof text);
    assert_string_equal(text, "w0, ps0");
    ps_commit_fini(&w.c);
}

/* --- every state with every event ------------------------------------------ */

typedef enum place {
    AT_CAN,
    AT_PRE,
    AT_DO,
    AT_BARRIER, /* one Ready is in */
    AT_RUNNING,
    AT_COLLECTING,
    AT_SALVAGE,
    AT_STORE,
    AT_RELEASE,
    AT_OVER,
    PLACES
} place;

static void go_to(world *w, place where, const ps_commit_conf *with)
{
    ps_status nan = ps_fail(PS_DATA_LOSS, "nan");

    begin(w, with);
    if (where >= AT_PRE)
        reserve_all(w);
    if (where >= AT_DO)
        prepare_all(w);
    if (where >= AT_BARRIER)
        ready_one(w, W0);
    if (where >= AT_RUNNING) {
        ready_one(w, W1);
        ready_one(w, PS0);
    }
    if (where == AT_SALVAGE) {
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &nan, w->now);
        take(w);
    } else if (where >= AT_COLLECTING) {
        finish_workers(w);
    }
    if (where >= AT_STORE)
        collect_all(w);
    if (where >= AT_RELEASE)
        store(w);
    if (where >= AT_OVER)
        release_all(w);
}

typedef enum happening {
    RESERVED,
    BUSY,
    REFUSED,
    PREPARED,
    READY,
    STALE_READY,
    BEAT,
    BEAT_FINISHED,
    BEAT_FAILED,
    BEAT_BLAMED,
    BEATS_IDLE,
    BEAT_REBORN,
    RESTARTED,
    COLLECTED,
    UNCOLLECTED,
    STORED,
    UNSTORED,
    RELEASED,
    CANCELLED,
    OWN_FAILURE,
    SILENCE,
    HAPPENINGS
} happening;

/* All of them about worker 1. */
static void happen(world *w, happening what)
{
    ps_status bad = ps_fail(PS_INTERNAL, "bad"), cut = ps_fail(PS_UNAVAILABLE, "cut"), st = ok;

    switch (what) {
    case RESERVED:
        ps_commit_reserved(&w->c, W1, "w1", 8, w->now);
        break;
    case BUSY:
        ps_commit_busy(&w->c, W1, "w1", "job x", w->now);
        break;
    case REFUSED:
        ps_commit_refused(&w->c, W1, &bad, w->now);
        break;
    case PREPARED:
        ps_commit_prepared(&w->c, W1, w->now);
        break;
    case READY:
        st = ps_commit_ready(&w->c, W1, 8, w->now);
        break;
    case STALE_READY:
        st = ps_commit_ready(&w->c, W1, 3, w->now);
        break;
    case BEAT:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(RUNNING), &ok, w->now);
        break;
    case BEAT_FINISHED:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FINISHED), &ok, w->now);
        break;
    case BEAT_FAILED:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &bad, w->now);
        break;
    case BEAT_BLAMED:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &cut, w->now);
        break;
    case BEATS_IDLE:
        ps_commit_beat(&w->c, W1, 8, false, PHASE(IDLE), &ok, w->now);
        ps_commit_beat(&w->c, W1, 8, false, PHASE(IDLE), &ok, w->now);
        break;
    case BEAT_REBORN:
        ps_commit_beat(&w->c, W1, 99, false, PHASE(IDLE), &ok, w->now);
        break;
    case RESTARTED:
        ps_commit_restarted(&w->c, W1, 99, w->now);
        break;
    case COLLECTED:
        ps_commit_collected(&w->c, W1, &ok, w->now);
        break;
    case UNCOLLECTED:
        ps_commit_collected(&w->c, W1, &bad, w->now);
        break;
    case STORED:
        ps_commit_stored(&w->c, &ok, w->now);
        break;
    case UNSTORED:
        ps_commit_stored(&w->c, &bad, w->now);
        break;
    case RELEASED:
        ps_commit_released(&w->c, W1, w->now);
        break;
    case CANCELLED:
        ps_commit_cancel(&w->c, "asked", w->now);
        break;
    case OWN_FAILURE:
        ps_commit_fail(&w->c, "INTERNAL", &bad, w->now);
        break;
    case SILENCE:
        w->now += 3600 * (int64_t)S;
        ps_commit_tick(&w->c, w->now);
        break;
    case HAPPENINGS:
        break;
    }
    (void)st.code;
    take(w);
}

/* What the outcome is after the event: - none, D done, F failed, C cancelled,
 * Q queued. Rows are happenings, columns places. In the matrix of asp the loss
 * of worker 1 while training or collecting is no outcome. */
// clang-format off
static const char *const expected[HAPPENINGS] = {
    /*                  CPDBR CSTRO  (can pre do barrier running collecting salvage store release over) */
    [RESERVED]      = "------FDDD",
    [BUSY]          = "Q-----FDDD",
    [REFUSED]       = "FFFF--FDDD",
    [PREPARED]      = "------FDDD",
    [READY]         = "------FDDD",
    [STALE_READY]   = "------FDDD",
    [BEAT]          = "------FDDD",
    [BEAT_FINISHED] = "------FDDD",
    [BEAT_FAILED]   = "FFFFF-FDDD",
    [BEAT_BLAMED]   = "FFFF--FDDD",
    [BEATS_IDLE]    = "--FFFFFDDD",
    [BEAT_REBORN]   = "-FFFFFFDDD",
    [RESTARTED]     = "-FFFFFFDDD",
    [COLLECTED]     = "------FDDD",
    [UNCOLLECTED]   = "-----FFDDD",
    [STORED]        = "------FDDD",
    [UNSTORED]      = "------FFDD",
    [RELEASED]      = "------FDDD",
    [CANCELLED]     = "CCCCCCFDDD",
    [OWN_FAILURE]   = "FFFFFFFDDD",
    [SILENCE]       = "FFFFFFFDDD",
};
// clang-format on

static char letter(Psgd__V1__JobState outcome)
{
    switch (outcome) {
    case STATE(DONE):
        return 'D';
    case STATE(FAILED):
        return 'F';
    case STATE(CANCELLED):
        return 'C';
    case STATE(QUEUED):
        return 'Q';
    default:
        return '-';
    }
}

/* Answers nothing but STORE, and lets time pass: it must end all the same. */
static void must_end(world *w, const char *where)
{
    for (unsigned k = 0; w->over == 0; k++) {
        int64_t at = ps_commit_deadline(&w->c);

        if (k > 30)
            fail_msg("%s: no end in sight, state %d stage %d", where, (int)w->c.state,
                     (int)w->c.stage);
        if (w->c.stage == PS_STAGE_STORE) {
            store(w);
            continue;
        }
        if (at == INT64_MAX)
            fail_msg("%s: waits without a deadline in state %d", where, (int)w->c.state);
        tick(w, at > w->now ? at - w->now : 0);
    }
    for (size_t i = 0; i < NODES; i++)
        if (w->released[i] != 1 && !w->c.members[i].is_released)
            fail_msg("%s: node %zu was released %u times", where, i, w->released[i]);
    assert_int_equal(w->over, 1);
    assert_int_equal(w->c.state, w->c.outcome);
    if (w->c.outcome == STATE(FAILED)) {
        assert_true(w->c.reason[0] != '\0');
        assert_true(w->c.message[0] != '\0');
    }
}

static void walk(const ps_commit_conf *with, bool asp)
{
    for (unsigned where = 0; where < PLACES; where++) {
        for (unsigned what = 0; what < HAPPENINGS; what++) {
            char label[80], want = expected[what][where], got;
            world w;

            snprintf(label, sizeof label, "place %u, happening %u", where, what);
            go_to(&w, (place)where, with);
            happen(&w, (happening)what);
            if (asp && (where == AT_RUNNING || where == AT_COLLECTING) && want == 'F' &&
                what != SILENCE && what != OWN_FAILURE)
                want = '-';
            if (asp && where >= AT_SALVAGE && where < AT_STORE)
                goto next; /* that place is reached by a failure, which asp survives */
            got = letter(w.c.outcome);
            if (got != want)
                fail_msg("%s: outcome %c, not %c (%s %s)", label, got, want, w.c.reason,
                         w.c.message);
            must_end(&w, label);
        next:
            ps_commit_fini(&w.c);
        }
    }
}

static void every_event_in_every_state_has_its_outcome_and_an_end(void **state)
{
    (void)state;
    walk(&conf, false);
}

static void every_event_in_every_state_ends_under_asp_too(void **state)
{
    ps_commit_conf asp = conf;

    (void)state;
    asp.survives_loss = true;
    walk(&asp, true);
}

static void two_events_in_any_order_end_as_well(void **state)
{
    (void)state;
    for (unsigned where = 0; where < PLACES; where++)
        for (unsigned a = 0; a < HAPPENINGS; a++)
            for (unsigned b = 0; b < HAPPENINGS; b++)
                for (unsigned asp = 0; asp < 2; asp++) {
                    ps_commit_conf with = conf;
                    char label[80];
                    world w;

                    with.survives_loss = asp != 0;
                    snprintf(label, sizeof label, "place %u, happenings %u and %u", where, a, b);
                    go_to(&w, (place)where, &with);
                    happen(&w, (happening)a);
                    happen(&w, (happening)b);
                    must_end(&w, label);
                    ps_commit_fini(&w.c);
                }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well_and_the_job_is_done),
        cmocka_unit_test(a_busy_node_names_the_job_that_holds_it),
        cmocka_unit_test(a_busy_node_that_nobody_named_sends_the_job_back_to_the_queue),
        cmocka_unit_test(silence_at_can_commit_names_everybody_who_is_silent),
        cmocka_unit_test(one_node_under_two_addresses_is_refused),
        cmocka_unit_test(the_first_ready_starts_the_barrier_s_clock),
        cmocka_unit_test(no_ready_at_all_ends_it_too),
        cmocka_unit_test(a_ready_of_another_process_is_aborted),
        cmocka_unit_test(a_ready_repeated_after_the_start_is_answered_again),
        cmocka_unit_test(a_silent_node_is_lost_when_its_lease_is_over),
        cmocka_unit_test(a_restarted_node_is_lost_for_the_attempt),
        cmocka_unit_test(a_node_restarted_before_it_answered_sends_the_job_back_to_the_queue),
        cmocka_unit_test(one_idle_beat_may_be_late_two_are_the_truth),
        cmocka_unit_test(asp_goes_on_without_a_lost_worker),
        cmocka_unit_test(asp_collects_when_the_last_unfinished_worker_is_lost),
        cmocka_unit_test(asp_fails_without_workers_and_without_a_server),
        cmocka_unit_test(a_node_s_own_failure_ends_the_job_and_its_files_are_saved),
        cmocka_unit_test(a_failure_blamed_on_a_peer_waits_to_see_who_is_dead),
        cmocka_unit_test(a_failure_blamed_on_a_peer_is_its_own_when_all_peers_live),
        cmocka_unit_test(files_that_do_not_come_fail_the_job_by_name),
        cmocka_unit_test(a_result_that_cannot_be_stored_is_a_failure),
        cmocka_unit_test(an_adopted_run_goes_on_when_its_nodes_are_heard_of),
        cmocka_unit_test(an_adopted_run_fails_when_a_node_stays_silent),
        cmocka_unit_test(an_adopted_end_only_releases),
        cmocka_unit_test(it_says_who_is_waited_for),
        cmocka_unit_test(every_event_in_every_state_has_its_outcome_and_an_end),
        cmocka_unit_test(every_event_in_every_state_ends_under_asp_too),
        cmocka_unit_test(two_events_in_any_order_end_as_well),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
