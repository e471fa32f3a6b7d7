/* SPDX-License-Identifier: Apache-2.0 */
/* test_rescue_rounds.c - how often nodes are asked at which clock they are, and which worker of a
 * mesh gives the state of all. */
#include "services/coordinator/domain/rescue_rounds.h"

#include "tests/support/cmocka_all.h"

static void the_worker_that_is_furthest_gives_the_state(void **state)
{
    ps_rescue_rounds r = {0};

    (void)state;
    ps_rescue_rounds_begin(&r, 0);
    ps_rescue_rounds_take(&r, 2, 6);
    ps_rescue_rounds_take(&r, 0, 7);
    ps_rescue_rounds_take(&r, 1, 7);
    assert_true(r.has_source);
    assert_int_equal(r.source, 0);
    assert_int_equal(r.clock, 7);
    ps_rescue_rounds_begin(&r, 0);
    assert_false(r.has_source);
    assert_int_equal(r.clock, 0);
}

static void a_worker_in_the_first_step_has_answered(void **state)
{
    ps_rescue_rounds r = {0};

    (void)state;
    ps_rescue_rounds_begin(&r, 0);
    ps_rescue_rounds_take(&r, 1, 0);
    assert_true(r.has_source);
    assert_int_equal(r.clock, 0);
    assert_false(ps_rescue_rounds_end(&r, r.has_source));
}

/* Returns how many rounds no worker answers. */
static unsigned stay_silent(ps_rescue_rounds *r)
{
    unsigned rounds = 0;
    bool again = true;

    while (again && rounds < 100) {
        ps_rescue_rounds_begin(r, 0);
        again = ps_rescue_rounds_end(r, r->has_source);
        rounds++;
    }
    return rounds;
}

static void nobody_is_asked_for_ever(void **state)
{
    ps_rescue_rounds r = {0};
    unsigned rounds = 0;

    (void)state;
    assert_int_equal(stay_silent(&r), PS_RESCUE_UNANSWERED_MAX);
    while (ps_rescue_rounds_may_repeat(&r) && rounds < 100) {
        ps_rescue_rounds_begin(&r, 0);
        ps_rescue_rounds_take(&r, 0, ++rounds);
        assert_false(ps_rescue_rounds_end(&r, r.has_source));
    }
    assert_int_equal(rounds, PS_RESCUE_ANSWERED_MAX);
}

static void rounds_without_an_answer_leave_the_others_their_number(void **state)
{
    ps_rescue_rounds r = {0};

    (void)state;
    for (unsigned i = 1; i < PS_RESCUE_UNANSWERED_MAX; i++) {
        ps_rescue_rounds_begin(&r, 0);
        assert_true(ps_rescue_rounds_end(&r, r.has_source));
    }
    for (uint64_t clock = 5; clock < 5 + PS_RESCUE_ANSWERED_MAX; clock++) {
        assert_true(ps_rescue_rounds_may_repeat(&r)); /* the worker goes on after each answer */
        ps_rescue_rounds_begin(&r, 0);
        ps_rescue_rounds_take(&r, 3, clock);
        assert_false(ps_rescue_rounds_end(&r, r.has_source));
    }
    assert_false(ps_rescue_rounds_may_repeat(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worker_that_is_furthest_gives_the_state),
        cmocka_unit_test(a_worker_in_the_first_step_has_answered),
        cmocka_unit_test(nobody_is_asked_for_ever),
        cmocka_unit_test(rounds_without_an_answer_leave_the_others_their_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
