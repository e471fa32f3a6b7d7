/* SPDX-License-Identifier: Apache-2.0 */
/* test_consistency.c - the policies' answers, row by row. */
#include "tests/support/cmocka_all.h"

#include "common/consistency/consistency.h"

#include <string.h>

enum { W = 3 };

typedef struct row {
    uint64_t done[W];
    uint32_t worker;
    uint64_t clock;
    bool admits, gives;
} row;

static ps_clocks clocks_of(const uint64_t *done)
{
    ps_clocks c = {.workers = W, .done = done, .least = done[0]};

    for (uint32_t w = 1; w < W; w++) {
        c.least = done[w] < c.least ? done[w] : c.least;
    }
    c.version = c.least;
    return c;
}

static void walk(const ps_consistency *policy, const ps_params *params, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ps_clocks c = clocks_of(rows[i].done);

        if (policy->admit(params, &c, rows[i].worker, rows[i].clock) != rows[i].admits ||
            policy->on_pull(params, &c, rows[i].worker, rows[i].clock) != rows[i].gives) {
            fail_msg("%s: row %zu", policy->name, i);
        }
    }
}

static void push_is(const ps_consistency *policy, const ps_params *params, ps_verdict verdict)
{
    static const uint64_t done[W] = {4, 2, 7};
    ps_clocks c = clocks_of(done);

    for (uint32_t w = 0; w < W; w++) {
        for (uint64_t clock = 0; clock < 9; clock++) {
            float scale = 0;

            assert_int_equal(policy->on_push(params, &c, w, clock, &scale), verdict);
            assert_true(scale == 1.0f);
        }
    }
}

static void bsp_waits_for_everybody(void **state)
{
    static const row rows[] = {
        {{0, 0, 0}, 0, 0, true, true},          {{1, 0, 0}, 0, 1, false, false},
        {{1, 1, 0}, 0, 1, false, false},        {{1, 1, 1}, 0, 1, true, true},
        {{1, 1, 1}, 2, 0, true, true}, /* one that is behind is let go */
        {{1, 1, 1}, 2, 2, false, false},        {{9, 9, 8}, 2, 9, false, false},
        {{9, 9, UINT64_MAX}, 0, 9, true, true},
    };
    const ps_consistency *bsp = ps_consistency_find("bsp");
    ps_params params = ps_params_default(bsp->params);

    (void)state;
    walk(bsp, &params, rows, sizeof rows / sizeof rows[0]);
    push_is(bsp, &params, PS_BUFFER);
    assert_int_equal(bsp->lead(&params), 0);
    assert_true(bsp->is_deterministic && !bsp->survives_loss && bsp->asks_early);
}

static void ssp_lets_a_worker_run_ahead_by_its_bound(void **state)
{
    static const row rows[] = {
        {{0, 0, 0}, 0, 0, true, true},
        {{1, 0, 0}, 0, 1, true, true},
        {{2, 0, 0}, 0, 2, true, true},
        {{3, 0, 0}, 0, 3, false, true}, /* 3 ahead of the slowest, 2 are allowed */
        {{3, 1, 1}, 0, 3, true, true},
        {{2, 1, 1}, 0, 3, true, false}, /* its own last push is not in yet */
        {{3, 0, 5}, 1, 0, true, true},
        {{3, 5, UINT64_MAX}, 0, 3, true, true},
    };
    const ps_consistency *ssp = ps_consistency_find("ssp");
    ps_params params = ps_params_default(ssp->params);

    (void)state;
    assert_true(params.v[0] == 3);
    assert_int_equal(ps_param_find(ssp->params, "bound"), 0);
    assert_true(ssp->params[0].is_integer && ssp->params[0].min == 0 &&
                ssp->params[0].max == 1000000);
    params.v[0] = 2;
    walk(ssp, &params, rows, sizeof rows / sizeof rows[0]);
    push_is(ssp, &params, PS_APPLY);
    assert_int_equal(ssp->lead(&params), 2);
    assert_true(!ssp->is_deterministic && !ssp->survives_loss && !ssp->asks_early);
}

static void ssp_with_bound_0_admits_as_bsp(void **state)
{
    const ps_consistency *ssp = ps_consistency_find("ssp"), *bsp = ps_consistency_find("bsp");
    ps_params none = {{0}};

    (void)state;
    for (uint64_t a = 0; a < 4; a++) {
        for (uint64_t b = 0; b < 4; b++) {
            for (uint64_t clock = 0; clock < 5; clock++) {
                uint64_t done[W] = {a, b, 3};
                ps_clocks c = clocks_of(done);

                assert_int_equal(ssp->admit(&none, &c, 0, clock), bsp->admit(&none, &c, 0, clock));
            }
        }
    }
}

static void asp_never_waits(void **state)
{
    static const row rows[] = {
        {{0, 0, 0}, 0, 0, true, true},
        {{1000000, 0, 0}, 0, 1000000, true, true},
        {{0, 0, 0}, 0, UINT64_MAX, true, true},
    };
    const ps_consistency *asp = ps_consistency_find("asp");
    ps_params params = ps_params_default(asp->params);

    (void)state;
    walk(asp, &params, rows, sizeof rows / sizeof rows[0]);
    push_is(asp, &params, PS_APPLY);
    assert_true(asp->lead(&params) == UINT64_MAX);
    assert_true(!asp->is_deterministic && asp->survives_loss);
}

static void check_policy(const ps_consistency *policy, void *arg)
{
    ++*(size_t *)arg;
    assert_ptr_equal(ps_consistency_find(policy->name), policy);
    assert_non_null(policy->summary);
}

static void every_policy_is_found_by_its_name(void **state)
{
    size_t count = 0;

    (void)state;
    ps_consistency_each(check_policy, &count);
    assert_true(count >= 3);
    assert_null(ps_consistency_find("bsp2"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_waits_for_everybody),
        cmocka_unit_test(ssp_lets_a_worker_run_ahead_by_its_bound),
        cmocka_unit_test(ssp_with_bound_0_admits_as_bsp),
        cmocka_unit_test(asp_never_waits),
        cmocka_unit_test(every_policy_is_found_by_its_name),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
