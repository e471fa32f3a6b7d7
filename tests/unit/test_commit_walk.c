/* SPDX-License-Identifier: Apache-2.0 */
/* test_commit_walk.c - every state of the commit with every event, and all ends. */
#include "tests/support/commit_world.h"

#include <stdio.h>
#include <string.h>

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

static void go_to(cm_world *w, place where, const ps_commit_conf *with)
{
    ps_status nan = ps_fail(PS_DATA_LOSS, "nan");

    cm_begin(w, with);
    if (where >= AT_PRE) {
        cm_reserve_all(w);
    }
    if (where >= AT_DO) {
        cm_prepare_all(w);
    }
    if (where >= AT_BARRIER) {
        cm_ready_one(w, W0);
    }
    if (where >= AT_RUNNING) {
        cm_ready_one(w, W1);
        cm_ready_one(w, PS0);
    }
    if (where == AT_SALVAGE) {
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &nan, w->now);
        cm_take(w);
    } else if (where >= AT_COLLECTING) {
        cm_finish_workers(w);
    }
    if (where >= AT_STORE) {
        cm_collect_all(w);
    }
    if (where >= AT_RELEASE) {
        cm_store(w);
    }
    if (where >= AT_OVER) {
        cm_release_all(w);
    }
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
    UNRESERVED,
    COLLECTED,
    UNCOLLECTED,
    STORED,
    UNSTORED,
    STORE_WAITS,
    FILES_WAIT,
    DISK_FULL, /* nothing can be saved for a minute */
    RELEASED,
    CANCELLED,
    OWN_FAILURE,
    SILENCE,
    HAPPENINGS
} happening;

/* All of them about worker 1. */
static void happen(cm_world *w, happening what)
{
    ps_status bad = ps_fail(PS_INTERNAL, "bad"), cut = ps_fail(PS_UNAVAILABLE, "cut"), st = cm_ok;
    ps_status broken = ps_fail(PS_DATA_LOSS, "broken");

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
        ps_commit_beat(&w->c, W1, 8, true, PHASE(RUNNING), &cm_ok, w->now);
        break;
    case BEAT_FINISHED:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FINISHED), &cm_ok, w->now);
        break;
    case BEAT_FAILED:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &bad, w->now);
        break;
    case BEAT_BLAMED:
        ps_commit_beat(&w->c, W1, 8, true, PHASE(FAILED), &cut, w->now);
        break;
    case BEATS_IDLE:
        ps_commit_beat(&w->c, W1, 8, false, PHASE(IDLE), &cm_ok, w->now);
        ps_commit_beat(&w->c, W1, 8, false, PHASE(IDLE), &cm_ok, w->now);
        break;
    case BEAT_REBORN:
        ps_commit_beat(&w->c, W1, 99, false, PHASE(IDLE), &cm_ok, w->now);
        break;
    case RESTARTED:
        ps_commit_restarted(&w->c, W1, 99, w->now);
        break;
    case UNRESERVED:
        ps_commit_unreserved(&w->c, W1, &bad, w->now);
        break;
    case COLLECTED:
        ps_commit_collected(&w->c, W1, &cm_ok, w->now);
        break;
    case UNCOLLECTED:
        ps_commit_collected(&w->c, W1, &bad, w->now);
        break;
    case STORED:
        ps_commit_stored(&w->c, &cm_ok, w->now);
        break;
    case UNSTORED:
        ps_commit_stored(&w->c, &broken, w->now);
        break;
    case STORE_WAITS:
        ps_commit_stored(&w->c, &cm_full, w->now);
        break;
    case FILES_WAIT:
        ps_commit_held(&w->c, W1, true, &cm_full, w->now);
        break;
    case DISK_FULL:
        w->is_full = true;
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
    cm_take(w);
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
    [BEATS_IDLE]    = "--QQFFFDDD",
    [BEAT_REBORN]   = "-QQQFFFDDD",
    [RESTARTED]     = "-QQQFFFDDD",
    [UNRESERVED]    = "QQQQ--FDDD",
    [COLLECTED]     = "------FDDD",
    [UNCOLLECTED]   = "-----FFDDD",
    [STORED]        = "------FDDD",
    [UNSTORED]      = "------FFDD",
    [STORE_WAITS]   = "------FDDD",
    [FILES_WAIT]    = "------FDDD",
    [DISK_FULL]     = "------FDDD",
    [RELEASED]      = "------FDDD",
    [CANCELLED]     = "CCCCCCFDDD",
    [OWN_FAILURE]   = "FFFFFFFDDD",
    [SILENCE]       = "QFFFFFFDDD",
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

/* Answers nothing but STORE and the second COLLECT, and lets time pass: it must end all the same.
 */
static void must_end(cm_world *w, const char *where)
{
    for (unsigned k = 0; w->over == 0; k++) {
        int64_t at = ps_commit_deadline(&w->c);

        if (w->is_full && k == 8) {
            w->is_full = false; /* there is room again */
        }
        if (w->c.members[W1].files == PS_FILES_ASKED && w->collected[W1] > 1) {
            ps_commit_collected(&w->c, W1, &cm_ok, w->now);
            cm_take(w);
            continue;
        }
        if (k > 40) {
            fail_msg("%s: no end in sight, state %d stage %d", where, (int)w->c.state,
                     (int)w->c.stage);
        }
        if (w->c.stage == PS_STAGE_STORE) {
            cm_store(w);
            continue;
        }
        if (at == INT64_MAX) {
            fail_msg("%s: waits without a deadline in state %d", where, (int)w->c.state);
        }
        cm_tick(w, at > w->now ? at - w->now : 0);
    }
    for (size_t i = 0; i < NODES; i++) {
        if (w->released[i] != 1 && !w->c.members[i].is_released) {
            fail_msg("%s: node %zu was released %u times", where, i, w->released[i]);
        }
    }
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
            cm_world w;

            snprintf(label, sizeof label, "place %u, happening %u", where, what);
            go_to(&w, (place)where, with);
            happen(&w, (happening)what);
            if (asp && (where == AT_RUNNING || where == AT_COLLECTING) && want == 'F' &&
                what != SILENCE && what != OWN_FAILURE) {
                want = '-';
            }
            if (asp && where >= AT_SALVAGE && where < AT_STORE) {
                goto next; /* that place is reached by a failure, which asp survives */
            }
            got = letter(w.c.outcome);
            if (got != want) {
                fail_msg("%s: outcome %c, not %c (%s %s)", label, got, want, w.c.reason,
                         w.c.message);
            }
            must_end(&w, label);
        next:
            ps_commit_fini(&w.c);
        }
    }
}

static void every_event_in_every_state_has_its_outcome_and_an_end(void **state)
{
    (void)state;
    walk(&cm_conf, false);
}

static void every_event_in_every_state_ends_under_asp_too(void **state)
{
    ps_commit_conf asp = cm_conf;

    (void)state;
    asp.survives_loss = true;
    walk(&asp, true);
}

static void two_events_in_any_order_end_as_well(void **state)
{
    (void)state;
    for (unsigned where = 0; where < PLACES; where++) {
        for (unsigned a = 0; a < HAPPENINGS; a++) {
            for (unsigned b = 0; b < HAPPENINGS; b++) {
                for (unsigned asp = 0; asp < 2; asp++) {
                    ps_commit_conf with = cm_conf;
                    char label[80];
                    cm_world w;

                    with.survives_loss = asp != 0;
                    snprintf(label, sizeof label, "place %u, happenings %u and %u", where, a, b);
                    go_to(&w, (place)where, &with);
                    happen(&w, (happening)a);
                    happen(&w, (happening)b);
                    must_end(&w, label);
                    ps_commit_fini(&w.c);
                }
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state_has_its_outcome_and_an_end),
        cmocka_unit_test(every_event_in_every_state_ends_under_asp_too),
        cmocka_unit_test(two_events_in_any_order_end_as_well),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
