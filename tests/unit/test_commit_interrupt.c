/* SPDX-License-Identifier: Apache-2.0 */
/* test_commit_interrupt.c - attempts that end before training, for a reason that the next one may
 * not meet. */
#include "tests/support/commit_world.h"

static void an_attempt_that_is_interrupted_is_repeated_if_it_may_be(void **state)
{
    const ps_status gone = {.code = PS_FAILED_PRECONDITION, .text = "not reserved"};
    ps_commit_conf last = cm_conf;
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    cm_reserve_all(&w);
    ps_commit_unreserved(&w.c, W1, &gone, w.now);
    assert_int_equal(w.c.outcome, STATE(QUEUED));
    assert_string_equal(w.c.reason, "RESERVATION_LOST");
    assert_string_equal(w.c.message, "worker w1 (h:2): not reserved");
    assert_true(w.c.is_interrupted);
    ps_commit_fini(&w.c);

    last.may_repeat = false;
    cm_begin(&w, &last);
    cm_reserve_all(&w);
    ps_commit_restarted(&w.c, W1, 99, w.now);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    assert_string_equal(w.c.reason, "NODE_RESTARTED");
    ps_commit_fini(&w.c);
}

static void a_checkpoint_that_is_torn_while_it_is_sent_leads_to_another_attempt(void **state)
{
    const ps_status full = {.code = PS_RESOURCE_EXHAUSTED, .text = "no memory"};
    const ps_status torn = {.code = PS_DATA_LOSS, .text = "server-00000-00.state became shorter"};
    ps_commit_conf last = cm_conf;
    cm_world w;

    (void)state;
    cm_begin(&w, &cm_conf);
    cm_reserve_all(&w);
    ps_commit_torn(&w.c, &torn, w.now);
    ps_commit_refused(&w.c, W1, &torn, w.now);
    assert_int_equal(w.c.outcome, STATE(QUEUED));
    assert_string_equal(w.c.reason, "CHECKPOINT_TORN");
    assert_string_equal(w.c.message, torn.text);
    assert_true(w.c.is_interrupted);
    ps_commit_fini(&w.c);

    last.may_repeat = false;
    cm_begin(&w, &last);
    cm_reserve_all(&w);
    ps_commit_torn(&w.c, &torn, w.now);
    ps_commit_refused(&w.c, W1, &torn, w.now);
    assert_int_equal(w.c.outcome, STATE(FAILED));
    ps_commit_fini(&w.c);

    cm_begin(&w, &cm_conf);
    cm_reserve_all(&w);
    ps_commit_torn(&w.c, &full, w.now);
    ps_commit_fail(&w.c, "PACKAGE_FAILED", &full, w.now);
    assert_string_equal(w.c.reason, "PACKAGE_FAILED");
    ps_commit_fini(&w.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_that_is_interrupted_is_repeated_if_it_may_be),
        cmocka_unit_test(a_checkpoint_that_is_torn_while_it_is_sent_leads_to_another_attempt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
