/* SPDX-License-Identifier: Apache-2.0 */
/* test_straggler.c - who is held up, and for how long. */
#include "tests/support/cmocka_all.h"

#include "common/straggler/straggler.h"

#include <math.h>

static int64_t ask(const char *name, const ps_params *params, uint32_t rank, uint64_t step,
                   int64_t busy_us)
{
    return ps_straggler_find(name)->delay_us(params, 7, rank, step, busy_us);
}

static void nobody_is_held_up_by_default(void **state)
{
    ps_params none = ps_params_default(ps_straggler_find("none")->params);

    (void)state;
    for (uint64_t step = 0; step < 20; step++) {
        assert_int_equal(ask("none", &none, (uint32_t)step, step, 1000000), 0);
    }
}

static void fixed_holds_up_one_or_all(void **state)
{
    ps_params one = {{2, 1.5}}, all = {{-1, 20}}, both = {{2, 1.5, 0.25}};

    (void)state;
    for (uint32_t rank = 0; rank < 5; rank++) {
        assert_int_equal(ask("fixed", &one, rank, rank, 99), rank == 2 ? 1500 : 0);
        assert_int_equal(ask("fixed", &both, rank, rank, 99), rank == 2 ? 1500 : 250);
        assert_int_equal(ask("fixed", &all, rank, rank, 99), 20000);
    }
}

static void slow_takes_so_many_times_as_long(void **state)
{
    ps_params params = {{1, 4}}, most = {{1, 1000}};

    (void)state;
    assert_int_equal(ask("slow", &params, 0, 3, 5000), 0);
    assert_int_equal(ask("slow", &params, 1, 3, 5000), 15000); /* 5 + 15 is 4 times 5 */
    assert_int_equal(ask("slow", &params, 1, 3, 0), 0);
    assert_true(ask("slow", &most, 1, 3, INT64_C(3600000000000)) == INT64_C(3600000000));
}

/* 20,000 steps: the share within 4 standard errors, mean and variance of an
 * exponential distribution within 6 %. */
static void random_draws_by_counter(void **state)
{
    ps_params params = {{-1, 0.25, 8}};
    enum { STEPS = 20000 };
    double sum = 0, squares = 0, count = 0;

    (void)state;
    for (uint64_t step = 0; step < STEPS; step++) {
        int64_t us = ask("random", &params, 3, step, 0);

        assert_true(us >= 0);
        assert_int_equal(us, ask("random", &params, 3, step, 77));
        count += us > 0;
        sum += (double)us;
        squares += (double)us * (double)us;
    }
    assert_true(fabs(count / STEPS - 0.25) < 4 * sqrt(0.25 * 0.75 / STEPS));
    assert_true(fabs(sum / count / 8000 - 1) < 0.06);
    assert_true(fabs(squares / count / (2.0 * 8000 * 8000) - 1) < 0.12);
    assert_int_not_equal(ask("random", &(ps_params){{-1, 1, 8}}, 3, 1, 0),
                         ask("random", &(ps_params){{-1, 1, 8}}, 4, 1, 0));
    assert_int_equal(ask("random", &(ps_params){{1, 1, 8}}, 3, 1, 0), 0);
    assert_int_equal(ask("random", &(ps_params){{-1, 0, 8}}, 3, 1, 0), 0);
}

static void check_one(const ps_straggler *straggler, void *arg)
{
    ps_params params = ps_params_default(straggler->params);

    ++*(size_t *)arg;
    assert_ptr_equal(ps_straggler_find(straggler->name), straggler);
    assert_non_null(straggler->summary);
    if (straggler->check != NULL) {
        params.v[0] = 3;
        assert_int_equal(straggler->check(&params, 4).code, PS_OK);
        assert_int_equal(straggler->check(&params, 3).code, PS_INVALID_ARGUMENT);
        params.v[0] = -1;
        assert_int_equal(straggler->check(&params, 1).code, PS_OK);
    }
}

static void every_straggler_is_found_and_knows_its_ranks(void **state)
{
    size_t count = 0;

    (void)state;
    ps_straggler_each(check_one, &count);
    assert_int_equal(count, 4);
    assert_null(ps_straggler_find("lazy"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_held_up_by_default),
        cmocka_unit_test(fixed_holds_up_one_or_all),
        cmocka_unit_test(slow_takes_so_many_times_as_long),
        cmocka_unit_test(random_draws_by_counter),
        cmocka_unit_test(every_straggler_is_found_and_knows_its_ranks),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
