/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent.c - every input in every phase of a node's side of the commit. */
#include "common/node/agent.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

/* The attempt held in the walk is 5 of "job-a"; older ones are below it. */
static const char *const job = "job-a", *const other = "job-b";
enum { HELD = 5, NOW_US = 1000, RESERVE_US = 100, PREPARE_US = 200, WAIT_US = 300, READY_US = 400 };

/* An agent in `phase`, brought there by the ordinary way. */
static ps_agent agent_in(ps_phase phase)
{
    ps_agent a;
    ps_agent_action action = PS_AGENT_NOTHING;
    ps_status st, broken = ps_fail(PS_INTERNAL, "broken"), fine = ps_ok();

    ps_agent_init(&a);
    if (phase == PS_PHASE_IDLE) {
        return a;
    }
    st = ps_agent_can_commit(&a, job, HELD, NOW_US, RESERVE_US);
    assert_true(ps_is_ok(&st));
    if (phase > PS_PHASE_RESERVED) {
        st = ps_agent_prepare(&a, job, HELD, NOW_US, PREPARE_US);
        assert_true(ps_is_ok(&st));
    }
    if (phase > PS_PHASE_PREPARING) {
        st = ps_agent_sealed(&a, NOW_US, WAIT_US);
        assert_true(ps_is_ok(&st));
    }
    if (phase > PS_PHASE_PREPARED) {
        st = ps_agent_do_commit(&a, job, HELD, NOW_US, READY_US, &action);
        assert_true(ps_is_ok(&st));
        assert_int_equal(action, PS_AGENT_GO_READY);
    }
    if (phase > PS_PHASE_READY) {
        assert_int_equal(ps_agent_barrier(&a, true), PS_AGENT_RUN);
    }
    if (phase > PS_PHASE_RUNNING) {
        ps_agent_done(&a, phase == PS_PHASE_FAILED ? &broken : &fine);
    }
    assert_int_equal(a.phase, phase);
    return a;
}

typedef struct outcome {
    ps_code code;
    ps_agent_action action;
} outcome;

typedef outcome input_fn(ps_agent *a);

static outcome status_of(ps_status st)
{
    return (outcome){.code = st.code, .action = PS_AGENT_NOTHING};
}
static outcome action_of(ps_agent_action action)
{
    return (outcome){.code = PS_OK, .action = action};
}

static outcome can_same(ps_agent *a)
{
    return status_of(ps_agent_can_commit(a, job, HELD, NOW_US, RESERVE_US));
}
static outcome can_newer(ps_agent *a)
{
    return status_of(ps_agent_can_commit(a, job, HELD + 1, NOW_US, RESERVE_US));
}
static outcome can_older(ps_agent *a)
{
    return status_of(ps_agent_can_commit(a, job, HELD - 1, NOW_US, RESERVE_US));
}
static outcome can_other(ps_agent *a)
{
    return status_of(ps_agent_can_commit(a, other, 1, NOW_US, RESERVE_US));
}
static outcome prepare_same(ps_agent *a)
{
    return status_of(ps_agent_prepare(a, job, HELD, NOW_US, PREPARE_US));
}
static outcome prepare_older(ps_agent *a)
{
    return status_of(ps_agent_prepare(a, job, HELD - 1, NOW_US, PREPARE_US));
}
static outcome prepare_other(ps_agent *a)
{
    return status_of(ps_agent_prepare(a, other, HELD, NOW_US, PREPARE_US));
}
static outcome sealed(ps_agent *a)
{
    return status_of(ps_agent_sealed(a, NOW_US, WAIT_US));
}
static outcome commit(ps_agent *a, const char *job_id, uint32_t attempt)
{
    outcome o;
    ps_status st = ps_agent_do_commit(a, job_id, attempt, NOW_US, READY_US, &o.action);

    o.code = st.code;
    return o;
}
static outcome commit_same(ps_agent *a)
{
    return commit(a, job, HELD);
}
static outcome commit_older(ps_agent *a)
{
    return commit(a, job, HELD - 1);
}
static outcome commit_other(ps_agent *a)
{
    return commit(a, other, HELD);
}
static outcome barrier_open(ps_agent *a)
{
    return action_of(ps_agent_barrier(a, true));
}
static outcome barrier_shut(ps_agent *a)
{
    return action_of(ps_agent_barrier(a, false));
}
static outcome done_ok(ps_agent *a)
{
    ps_status st = ps_ok();

    ps_agent_done(a, &st);
    return action_of(PS_AGENT_NOTHING);
}
static outcome done_bad(ps_agent *a)
{
    ps_status st = ps_fail(PS_DATA_LOSS, "a reason");

    ps_agent_done(a, &st);
    return action_of(PS_AGENT_NOTHING);
}
static outcome keep_until(ps_agent *a)
{
    ps_agent_keep_until(a, NOW_US + 7);
    return action_of(PS_AGENT_NOTHING);
}
static outcome abort_same(ps_agent *a)
{
    return action_of(ps_agent_abort(a, job, HELD));
}
static outcome abort_newer(ps_agent *a)
{
    return action_of(ps_agent_abort(a, job, HELD + 1));
}
static outcome abort_older(ps_agent *a)
{
    return action_of(ps_agent_abort(a, job, HELD - 1));
}
static outcome abort_other(ps_agent *a)
{
    return action_of(ps_agent_abort(a, other, HELD + 1));
}
static outcome give_up(ps_agent *a)
{
    return action_of(ps_agent_give_up(a));
}
static outcome tick_early(ps_agent *a)
{
    return action_of(ps_agent_tick(a, NOW_US + RESERVE_US - 1));
}
static outcome tick_late(ps_agent *a)
{
    return action_of(ps_agent_tick(a, INT64_MAX - 1));
}

/* What becomes of the input in each phase: next phase, code, action. The
 * columns are the phases in their order. */
enum { N_PHASES = 8 };
typedef struct cell {
    char next; /* i r p P R u F X, or '.' for no change */
    ps_code code;
    ps_agent_action action;
} cell;

#define SAME                                                                                       \
    {                                                                                              \
        '.', PS_OK, PS_AGENT_NOTHING                                                               \
    }
#define NOT                                                                                        \
    {                                                                                              \
        '.', PS_FAILED_PRECONDITION, PS_AGENT_NOTHING                                              \
    }
#define BUSY                                                                                       \
    {                                                                                              \
        '.', PS_UNAVAILABLE, PS_AGENT_NOTHING                                                      \
    }
#define OLD                                                                                        \
    {                                                                                              \
        '.', PS_ABORTED, PS_AGENT_NOTHING                                                          \
    }
#define TO(phase)                                                                                  \
    {                                                                                              \
        phase, PS_OK, PS_AGENT_NOTHING                                                             \
    }
#define FREED                                                                                      \
    {                                                                                              \
        'i', PS_OK, PS_AGENT_RELEASE                                                               \
    }

// clang-format off
static const struct row {
    const char *name;
    input_fn *input;
    cell cells[N_PHASES];
} table[] = {
    /*                           IDLE      RESERVED  PREPARING PREPARED  READY     RUNNING   FINISHED  FAILED */
    {"can same", can_same,      {TO('r'),  TO('r'),  BUSY,     BUSY,     BUSY,     BUSY,     BUSY,     BUSY}},
    {"can newer", can_newer,    {TO('r'),  BUSY,     BUSY,     BUSY,     BUSY,     BUSY,     BUSY,     BUSY}},
    {"can older", can_older,    {TO('r'),  OLD,      OLD,      OLD,      OLD,      OLD,      OLD,      OLD}},
    {"can other", can_other,    {TO('r'),  BUSY,     BUSY,     BUSY,     BUSY,     BUSY,     BUSY,     BUSY}},
    {"prepare", prepare_same,   {NOT,      TO('p'),  NOT,      NOT,      NOT,      NOT,      NOT,      NOT}},
    {"prep older", prepare_older, {NOT,    OLD,      OLD,      OLD,      OLD,      OLD,      OLD,      OLD}},
    {"prep other", prepare_other, {NOT,    NOT,      NOT,      NOT,      NOT,      NOT,      NOT,      NOT}},
    {"sealed", sealed,          {NOT,      NOT,      TO('P'),  NOT,      NOT,      NOT,      NOT,      NOT}},
    {"commit", commit_same,     {NOT,      NOT,      NOT,      {'R', PS_OK, PS_AGENT_GO_READY},
                                                                         SAME,     SAME,     SAME,     SAME}},
    {"commit older", commit_older, {NOT,   OLD,      OLD,      OLD,      OLD,      OLD,      OLD,      OLD}},
    {"commit other", commit_other, {NOT,   NOT,      NOT,      NOT,      NOT,      NOT,      NOT,      NOT}},
    {"open", barrier_open,      {SAME,     SAME,     SAME,     SAME,     {'u', PS_OK, PS_AGENT_RUN},
                                                                                   SAME,     SAME,     SAME}},
    {"shut", barrier_shut,      {SAME,     SAME,     SAME,     SAME,     FREED,    SAME,     SAME,     SAME}},
    {"done ok", done_ok,        {SAME,     SAME,     SAME,     SAME,     SAME,     TO('F'),  SAME,     SAME}},
    {"done bad", done_bad,      {SAME,     SAME,     SAME,     SAME,     TO('X'),  TO('X'),  SAME,     SAME}},
    {"keep until", keep_until,  {SAME,     SAME,     SAME,     SAME,     SAME,     SAME,     SAME,     SAME}},
    {"abort", abort_same,       {SAME,     FREED,    FREED,    FREED,    FREED,    FREED,    FREED,    FREED}},
    {"abort newer", abort_newer, {SAME,    FREED,    FREED,    FREED,    FREED,    FREED,    FREED,    FREED}},
    {"abort older", abort_older, {SAME,    SAME,     SAME,     SAME,     SAME,     SAME,     SAME,     SAME}},
    {"abort other", abort_other, {SAME,    SAME,     SAME,     SAME,     SAME,     SAME,     SAME,     SAME}},
    {"give up", give_up,        {SAME,     SAME,     FREED,    SAME,     SAME,     SAME,     SAME,     SAME}},
    {"tick early", tick_early,  {SAME,     SAME,     SAME,     SAME,     SAME,     SAME,     SAME,     SAME}},
    {"tick late", tick_late,    {SAME,     FREED,    FREED,    FREED,    FREED,    SAME,     SAME,     SAME}},
};
// clang-format on

static ps_phase phase_of(char c, ps_phase now)
{
    static const char letters[] = "irpPRuFX";
    const char *at = strchr(letters, c);

    return c == '.' || at == NULL ? now : (ps_phase)(PS_PHASE_IDLE + (at - letters));
}

static void every_input_in_every_phase_does_what_the_table_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (unsigned p = 0; p < N_PHASES; p++) {
            const ps_phase phase = (ps_phase)(PS_PHASE_IDLE + p);
            const cell *want = &table[i].cells[p];
            ps_agent a = agent_in(phase), before = a;
            outcome got = table[i].input(&a);

            if (got.code != want->code || got.action != want->action ||
                a.phase != phase_of(want->next, phase)) {
                fail_msg("%s in %s: got %s, code %d, action %d", table[i].name,
                         ps_phase_name(phase), ps_phase_name(a.phase), (int)got.code,
                         (int)got.action);
            }
            if (a.phase == PS_PHASE_IDLE) {
                assert_string_equal(a.job_id, "");
                assert_true(a.deadline_us == INT64_MAX);
            } else if (phase != PS_PHASE_IDLE) {
                assert_string_equal(a.job_id, before.job_id);
                assert_int_equal(a.attempt, before.attempt);
            }
        }
    }
}

static void each_wait_has_the_deadline_it_was_given(void **state)
{
    static const struct {
        ps_phase phase;
        int64_t deadline_us;
    } want[] = {
        {PS_PHASE_RESERVED, NOW_US + RESERVE_US},
        {PS_PHASE_PREPARING, NOW_US + PREPARE_US},
        {PS_PHASE_PREPARED, NOW_US + WAIT_US},
        {PS_PHASE_READY, NOW_US + READY_US},
        {PS_PHASE_RUNNING, INT64_MAX},
        {PS_PHASE_FINISHED, INT64_MAX},
        {PS_PHASE_FAILED, INT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        ps_agent a = agent_in(want[i].phase);

        assert_true(a.deadline_us == want[i].deadline_us);
        if (a.deadline_us != INT64_MAX) {
            assert_int_equal(ps_agent_tick(&a, a.deadline_us - 1), PS_AGENT_NOTHING);
            assert_int_equal(ps_agent_tick(&a, a.deadline_us), PS_AGENT_RELEASE);
        }
    }
}

static void a_reservation_asked_for_again_lasts_longer(void **state)
{
    ps_agent a = agent_in(PS_PHASE_RESERVED);
    ps_status st = ps_agent_can_commit(&a, job, HELD, NOW_US + 50, RESERVE_US);

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_true(a.deadline_us == NOW_US + 50 + RESERVE_US);
}

static void a_wait_without_end_does_not_overflow(void **state)
{
    ps_agent a;
    ps_status st;

    (void)state;
    ps_agent_init(&a);
    st = ps_agent_can_commit(&a, job, 1, NOW_US, INT64_MAX);
    assert_true(ps_is_ok(&st));
    assert_true(a.deadline_us == INT64_MAX);
}

static void an_attempt_older_than_the_last_one_is_refused_when_idle_too(void **state)
{
    ps_agent a = agent_in(PS_PHASE_RESERVED);
    ps_status st;

    (void)state;
    assert_int_equal(ps_agent_tick(&a, INT64_MAX - 1), PS_AGENT_RELEASE);
    st = ps_agent_can_commit(&a, job, HELD - 1, NOW_US, RESERVE_US);
    assert_int_equal(st.code, PS_ABORTED);
    st = ps_agent_can_commit(&a, job, HELD, NOW_US, RESERVE_US);
    assert_int_equal(st.code, PS_OK); /* it lapsed, nobody ended it */
}

static void an_aborted_attempt_does_not_come_back(void **state)
{
    ps_agent a = agent_in(PS_PHASE_PREPARED);
    ps_status st;

    (void)state;
    assert_int_equal(ps_agent_abort(&a, job, HELD), PS_AGENT_RELEASE);
    st = ps_agent_can_commit(&a, job, HELD, NOW_US, RESERVE_US);
    assert_int_equal(st.code, PS_ABORTED);
    st = ps_agent_prepare(&a, job, HELD, NOW_US, PREPARE_US);
    assert_int_equal(st.code, PS_ABORTED);
    st = ps_agent_can_commit(&a, job, HELD + 1, NOW_US, RESERVE_US);
    assert_int_equal(st.code, PS_OK);
}

static void an_abort_that_overtakes_its_attempt_still_ends_it(void **state)
{
    ps_agent a;
    ps_status st;

    (void)state;
    ps_agent_init(&a);
    assert_int_equal(ps_agent_abort(&a, job, HELD), PS_AGENT_NOTHING);
    st = ps_agent_can_commit(&a, job, HELD, NOW_US, RESERVE_US);
    assert_int_equal(st.code, PS_ABORTED);
}

static void a_failure_is_kept_for_those_who_ask(void **state)
{
    ps_agent a = agent_in(PS_PHASE_RUNNING);
    ps_status st = ps_fail(PS_DATA_LOSS, "a reason");

    (void)state;
    ps_agent_done(&a, &st);
    assert_int_equal(a.error.code, PS_DATA_LOSS);
    assert_string_equal(a.error.text, "a reason");
    assert_int_equal(ps_agent_abort(&a, job, HELD), PS_AGENT_RELEASE);
    assert_int_equal(a.error.code, PS_OK);
}

static void files_are_kept_as_long_as_the_coordinator_is_heard_of(void **state)
{
    ps_agent a = agent_in(PS_PHASE_FINISHED);

    (void)state;
    ps_agent_keep_until(&a, 5000);
    assert_int_equal(ps_agent_tick(&a, 4999), PS_AGENT_NOTHING);
    ps_agent_keep_until(&a, 6000);
    assert_int_equal(ps_agent_tick(&a, 5999), PS_AGENT_NOTHING);
    assert_int_equal(ps_agent_tick(&a, 6000), PS_AGENT_RELEASE);
}

static void running_has_no_deadline_however_late_it_gets(void **state)
{
    ps_agent a = agent_in(PS_PHASE_RUNNING);

    (void)state;
    ps_agent_keep_until(&a, 5000); /* of finished ones only */
    assert_int_equal(ps_agent_tick(&a, INT64_MAX - 1), PS_AGENT_NOTHING);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_input_in_every_phase_does_what_the_table_says),
        cmocka_unit_test(each_wait_has_the_deadline_it_was_given),
        cmocka_unit_test(a_reservation_asked_for_again_lasts_longer),
        cmocka_unit_test(a_wait_without_end_does_not_overflow),
        cmocka_unit_test(an_attempt_older_than_the_last_one_is_refused_when_idle_too),
        cmocka_unit_test(an_aborted_attempt_does_not_come_back),
        cmocka_unit_test(an_abort_that_overtakes_its_attempt_still_ends_it),
        cmocka_unit_test(a_failure_is_kept_for_those_who_ask),
        cmocka_unit_test(files_are_kept_as_long_as_the_coordinator_is_heard_of),
        cmocka_unit_test(running_has_no_deadline_however_late_it_gets),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
