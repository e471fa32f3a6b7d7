/* SPDX-License-Identifier: Apache-2.0 */
/* test_awake_clock.c - time without that in which the process did not run. */
#include "services/coordinator/domain/awake_clock.h"

#include "tests/support/cmocka_all.h"

static void a_frozen_process_does_not_age(void **state)
{
    const int64_t frozen_us = 12 * 1000000;
    int64_t at_us = 5000000, before_us;
    ps_awake_clock clock;

    (void)state;
    ps_awake_init(&clock, at_us);
    for (int i = 0; i < 50; i++) {
        at_us += PS_AWAKE_PULSE_US;
        assert_true(ps_awake_now_us(&clock, at_us) == at_us);
    }
    before_us = at_us;
    at_us += frozen_us;
    assert_true(ps_awake_now_us(&clock, at_us) == before_us + PS_AWAKE_PULSE_US);
    assert_true(ps_awake_now_us(&clock, at_us + 1) == before_us + PS_AWAKE_PULSE_US + 1);
    at_us += frozen_us; /* and again */
    assert_true(ps_awake_now_us(&clock, at_us) == before_us + 2 * PS_AWAKE_PULSE_US + 1);
}

static void a_busy_host_is_no_reason(void **state)
{
    ps_awake_clock clock;

    (void)state;
    ps_awake_init(&clock, 0);
    assert_true(ps_awake_now_us(&clock, PS_AWAKE_PAUSE_US) == PS_AWAKE_PAUSE_US);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_process_does_not_age),
        cmocka_unit_test(a_busy_host_is_no_reason),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
