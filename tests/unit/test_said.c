/* SPDX-License-Identifier: Apache-2.0 */
/* test_said.c - what a rank says with its contributions is refused, with the number of the rank, if
 * nobody could go on with it: records that are cut, of another step, or that make no reports. */
#include "common/wire/rank_reports.h"

#include "tests/support/plan_rig.h"

#include "common/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1, STEP = 2, EVALUATION = 3, CLOCK = 6 };

/* Records one after the other. */
typedef struct talk {
    uint8_t bytes[1024];
    size_t len;
} talk;

static void put(talk *t, const void *x, size_t len)
{
    assert_true(t->len + len <= sizeof t->bytes);
    memcpy(t->bytes + t->len, x, len);
    t->len += len;
}

static void put_head(talk *t, uint32_t kind, uint32_t len)
{
    put(t, &kind, sizeof kind);
    put(t, &len, sizeof len);
}

static void put_step(talk *t, uint64_t step, double time_s, double wait_s)
{
    const uint32_t epoch = 1;
    const uint64_t some = 5;
    const double x = 0.5;

    put_head(t, STEP, 76); /* a job without metrics but accuracy */
    put(t, &time_s, 8);
    put(t, &epoch, 4);
    put(t, &some, 8);
    put(t, &step, 8);
    put(t, &x, 8);
    put(t, &x, 8);
    put(t, &x, 8);
    put(t, &some, 8);
    put(t, &some, 8);
    put(t, &wait_s, 8);
}

static void put_zeros(talk *t, uint32_t kind, uint32_t len)
{
    const uint8_t zeros[256] = {0};

    put_head(t, kind, len);
    put(t, zeros, len);
}

static void right(talk *t)
{
    put_step(t, CLOCK + 1, 3, 1);
}

static void the_step_before(talk *t)
{
    put_step(t, CLOCK, 3, 1);
}

static void a_time_below_0(talk *t)
{
    put_step(t, CLOCK + 1, -1, 1);
}

static void a_wait_that_is_no_number(talk *t)
{
    put_step(t, CLOCK + 1, 3, (double)NAN);
}

static void cut(talk *t)
{
    right(t);
    t->len--;
}

static void a_head_that_is_cut(talk *t)
{
    right(t);
    put(t, "1234567", 7);
}

static void a_short_step(talk *t)
{
    put_zeros(t, STEP, 75);
}

static void two_steps(talk *t)
{
    right(t);
    right(t);
}

static void no_step(talk *t)
{
    put_zeros(t, PIECE, 10);
}

static void another_kind(talk *t)
{
    right(t);
    put_zeros(t, 4, 8);
}

static void an_evaluation_of_another_length(talk *t)
{
    put_zeros(t, EVALUATION, 9);
    right(t);
}

static void a_piece(talk *t)
{
    put_zeros(t, PIECE, 200);
    right(t);
}

static const struct {
    const char *name;
    void (*say)(talk *t);
    bool is_partial, is_fine;
} cases[] = {
    {"right", right, false, true},
    {"the step before", the_step_before, false, false},
    {"a time below 0", a_time_below_0, false, false},
    {"a wait that is no number", a_wait_that_is_no_number, false, false},
    {"cut", cut, false, false},
    {"a head that is cut", a_head_that_is_cut, false, false},
    {"a short step", a_short_step, false, false},
    {"two steps", two_steps, false, false},
    {"no step", no_step, true, false},
    {"another kind", another_kind, false, false},
    {"an evaluation of another length", an_evaluation_of_another_length, false, false},
    {"pieces, of which more follow", a_piece, true, true},
    {"pieces that are no reports", a_piece, false, false},
};

static ps_status check(const ps_rank_reports *reports, const ps_plan *plan, uint64_t clock,
                       const talk *t, bool is_partial)
{
    const ps_said said = {.bytes = t->bytes, .len = t->len, .is_partial = is_partial};

    return ps_rank_reports_check(reports, plan, 1, clock, &said);
}

static void what_nobody_could_go_on_with_is_refused(void **state)
{
    ps_plan *plan = plan_of("{}");
    ps_rank_reports reports;

    (void)state;
    assert_true(plan->metric_count <= 1);
    ps_rank_reports_init(&reports, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        talk t = {.len = 0};
        ps_status st;

        cases[i].say(&t);
        st = check(&reports, plan, CLOCK, &t, cases[i].is_partial);
        if (ps_is_ok(&st) != cases[i].is_fine ||
            (!cases[i].is_fine && (st.code != PS_INVALID_ARGUMENT ||
                                   strstr(st.text, "the report of rank 1") != st.text))) {
            fail_msg("%s: %d %s", cases[i].name, (int)st.code, st.text);
        }
    }
    ps_rank_reports_fini(&reports);
    ps_plan_destroy(plan);
}

static void take(ps_rank_reports *reports, uint64_t clock, const talk *t, bool is_partial)
{
    ps_rank_reports_take(reports, 1, clock, t->bytes, t->len, is_partial);
}

/* Pieces are checked together when the last one comes, also if it comes twice, or is no piece. */
static void pieces_are_checked_with_those_before(void **state)
{
    ps_plan *plan = plan_of("{}");
    talk piece = {.len = 0}, row = {.len = 0}, next = {.len = 0};
    ps_rank_reports reports;
    ps_status st;

    (void)state;
    ps_rank_reports_init(&reports, 2);
    a_piece(&piece);
    right(&row);
    put_zeros(&next, PIECE, 8);
    put_step(&next, CLOCK + 2, 3, 1);
    take(&reports, CLOCK - 1, &piece, true);
    st = check(&reports, plan, CLOCK, &row, false);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    take(&reports, CLOCK, &row, false);
    st = check(&reports, plan, CLOCK, &row, false); /* it comes again */
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = check(&reports, plan, CLOCK + 1, &next, true); /* there was a last piece */
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = check(&reports, plan, CLOCK - 2, &row, false); /* is not taken anyway */
    assert_true(ps_is_ok(&st));
    ps_rank_reports_fini(&reports);
    ps_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_could_go_on_with_is_refused),
        cmocka_unit_test(pieces_are_checked_with_those_before),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
