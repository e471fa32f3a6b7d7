/* SPDX-License-Identifier: Apache-2.0 */
/* test_explain.c - from what ranks measured to what bounds a job. */
#include "clients/psgd/explain_cause.h"

#include "tests/support/cmocka_all.h"

#include <math.h>

enum { STEPS = 1000 };

/* Returns a rank whose steps take so many milliseconds. */
static ps_explain_rank rank(double step, double compute, double wait)
{
    return (ps_explain_rank){.steps = STEPS, .seconds = step, .compute_s = compute, .wait_s = wait};
}

static void must_sum_to_one(const ps_explanation *e)
{
    assert_true(e->compute >= 0 && e->straggler >= 0 && e->exchange >= 0 && e->other >= 0);
    assert_true(fabs(e->compute + e->straggler + e->exchange + e->other - 1) < 1e-9);
}

static void names_the_cause(void **state)
{
    static const struct {
        ps_explain_rank ranks[3];
        size_t n, slowest;
        ps_explain_cause cause;
        ps_explain_surety surety;
        double share;
    } cases[] = {
        /* all compute */
        {{{STEPS, 10, 9.5, 0.4}, {STEPS, 10, 9.4, 0.5}, {STEPS, 10, 9.3, 0.6}},
         3,
         0,
         PS_EXPLAIN_COMPUTE,
         PS_EXPLAIN_SURE,
         0.93},
        /* rank 1 takes four times as long; the others wait for it */
        {{{STEPS, 10, 2, 7.9}, {STEPS, 10, 8, 1.9}, {STEPS, 10, 2, 7.9}},
         3,
         1,
         PS_EXPLAIN_STRAGGLER,
         PS_EXPLAIN_SURE,
         0.6},
        /* of two as well */
        {{{STEPS, 10, 2, 7.9}, {STEPS, 10, 8, 1.9}},
         2,
         1,
         PS_EXPLAIN_STRAGGLER,
         PS_EXPLAIN_SURE,
         0.6},
        /* rank 1 is slower, but nobody waits for it, as in asynchronous jobs */
        {{{STEPS, 5, 4.5, 0.4}, {STEPS, 10, 9.5, 0.4}, {STEPS, 5, 4.5, 0.4}},
         3,
         1,
         PS_EXPLAIN_COMPUTE,
         PS_EXPLAIN_SURE,
         0.95},
        /* all wait */
        {{{STEPS, 10, 2, 8}, {STEPS, 10, 2.1, 7.9}, {STEPS, 10, 2, 8}},
         3,
         1,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_SURE,
         0.79},
        /* a slower rank, but all wait longer still */
        {{{STEPS, 10, 1, 8.9}, {STEPS, 10, 3, 6.9}, {STEPS, 10, 1, 8.9}},
         3,
         1,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_SURE,
         0.69},
        /* neither computes nor waits */
        {{{STEPS, 10, 3, 1}}, 1, 0, PS_EXPLAIN_OTHER, PS_EXPLAIN_SURE, 0.6},
        /* less than half */
        {{{STEPS, 10, 6, 3.9}, {STEPS, 10, 6, 3.9}},
         2,
         0,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_LIKELY,
         0.39},
        /* just above what is named */
        {{{STEPS, 10, 7.5, 2.5}, {STEPS, 10, 7.5, 2.5}},
         2,
         0,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_UNSURE,
         0.25},
        /* too few steps for a verdict */
        {{{5, 10, 1, 9}, {5, 10, 1, 9}}, 2, 0, PS_EXPLAIN_EXCHANGE, PS_EXPLAIN_UNSURE, 0.9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_explanation e = ps_explain(cases[i].ranks, cases[i].n);
        double share = e.cause == PS_EXPLAIN_COMPUTE     ? e.compute
                       : e.cause == PS_EXPLAIN_STRAGGLER ? e.straggler
                       : e.cause == PS_EXPLAIN_EXCHANGE  ? e.exchange
                                                         : e.other;

        assert_int_equal(e.cause, cases[i].cause);
        assert_int_equal(e.surety, cases[i].surety);
        assert_int_equal(e.slowest, cases[i].slowest);
        assert_true(fabs(share - cases[i].share) < 0.02);
        must_sum_to_one(&e);
    }
}

/* Clocks of threads differ a little: sums above the whole time are cut. */
static void shares_sum_to_one(void **state)
{
    (void)state;
    for (double compute = 0; compute <= 12; compute += 0.5) {
        for (double wait = 0; wait <= 12; wait += 0.5) {
            ps_explain_rank ranks[] = {rank(10, compute, wait), rank(10, wait, compute)};
            ps_explanation e = ps_explain(ranks, 2);

            must_sum_to_one(&e);
        }
    }
}

/* Without the time that a straggler costs, steps take what the other ranks need. */
static void a_share_that_is_gone_makes_steps_faster(void **state)
{
    ps_explain_rank ranks[] = {rank(10, 2, 7.5), rank(10, 8, 1.5), rank(10, 2, 7.5)};
    ps_explanation e = ps_explain(ranks, 3);

    (void)state;
    assert_true(fabs(e.steps_per_s - 100) < 1e-9);
    assert_true(fabs(ps_explain_without(&e, e.straggler) - 250) < 1e-6); /* 2 + 1.5 + 0.5 ms */
    assert_true(fabs(ps_explain_without(&e, 0) - 100) < 1e-9);
    assert_true(isinf(ps_explain_without(&e, 1)));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_cause),
        cmocka_unit_test(shares_sum_to_one),
        cmocka_unit_test(a_share_that_is_gone_makes_steps_faster),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
