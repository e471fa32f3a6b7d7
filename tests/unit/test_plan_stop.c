/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_stop.c - what ends a job beside its epochs. */
#include "common/job/stop.h"

#include "tests/support/plan_rig.h"

#include <math.h>

static void bounds_beside_epochs(void **state)
{
    static const struct {
        const char *job;
        uint32_t epochs;
        uint64_t steps;
    } cases[] = {
        {"{\"max_steps\": 100}", 1, 100},
        {"{\"max_steps\": 938}", 2, 938},
        {"{\"max_steps\": 937}", 1, 937},
        {"{\"max_steps\": 5000, \"epochs\": 3}", 3, 3 * 937},
        {"{\"max_seconds\": 1.5}", 100000, 100000 * (uint64_t)937},
        {"{\"max_seconds\": 1.5, \"max_steps\": 938}", 2, 938},
        {"{\"stop_at\": {\"value\": 0.9}}", 2, 2 * 937},
        {"{\"preset\": \"bsp\", \"max_steps\": 20000, \"workers\": 1}", 22, 20000},
        {"{\"preset\": \"bsp\", \"max_steps\": 20000, \"workers\": 1, \"epochs\": 1}", 1, 937},
    };
    ps_plan *plan;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan = plan_of(cases[i].job);
        assert_int_equal(plan->spec->epochs, cases[i].epochs);
        assert_int_equal(plan->total_steps, cases[i].steps);
        assert_int_equal(plan->total_clocks, cases[i].steps);
        assert_int_equal(plan->descent.total_steps, cases[i].steps);
        ps_plan_destroy(plan);
    }
}

static void a_goal_has_a_direction(void **state)
{
    static const char *const costs[] = {"mse",
                                        "rmse",
                                        "mae",
                                        "relative_error",
                                        "eer",
                                        "false_positives",
                                        "false_negatives",
                                        "perplexity",
                                        "binary_sum_cross_entropy"};
    double good = 0.9, bad = 0.8, none = NAN;
    size_t count = 0;
    ps_plan *plan;

    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        count += ps_metric_find(costs[i])->is_cost;
    }
    assert_int_equal(count, 9);
    assert_false(ps_metric_find("accuracy")->is_cost || ps_metric_find("auc")->is_cost ||
                 ps_metric_find("top_k")->is_cost || ps_metric_find("true_positives")->is_cost);
    plan = plan_of("{\"stop_at\": {\"value\": 0.9}}");
    assert_string_equal(plan->spec->stop_at->metric, "accuracy");
    assert_true(ps_stop_is_reached(plan, 5, &good));
    assert_false(ps_stop_is_reached(plan, 5, &bad));
    assert_false(ps_stop_is_reached(plan, 5, &none));
    ps_plan_destroy(plan);
    plan = plan_of("{\"stop_at\": {\"metric\": \"loss\", \"value\": 0.9}}");
    assert_true(ps_stop_is_reached(plan, 0.8, &bad));
    assert_false(ps_stop_is_reached(plan, 1, &good));
    assert_false(ps_stop_is_reached(plan, none, &good));
    ps_plan_destroy(plan);
    plan = plan_of("{\"optimizer\": {\"maximise\": true}, \"stop_at\": {\"metric\": \"loss\", "
                   "\"value\": 0.9}}");
    assert_true(ps_stop_is_reached(plan, 1, &bad)); /* more loss is what it trains for */
    assert_false(ps_stop_is_reached(plan, 0.8, &good));
    ps_plan_destroy(plan);
    plan = plan_of("{}");
    assert_false(ps_stop_is_reached(plan, 0, &good));
    ps_plan_destroy(plan);
}

static void the_end_says_which_bound_it_was(void **state)
{
    static const struct {
        const char *job;
        ps_stop_end end;
        const char *reason, *text;
    } cases[] = {
        {"{}", {.step = 1874}, "", ""},
        {"{\"max_steps\": 9}", {.step = 9}, "MAX_STEPS", "ended by max_steps at step 9 of 9"},
        {"{\"max_steps\": 9, \"max_seconds\": 1}",
         {.cause = PS_STOP_SECONDS, .step = 4},
         "MAX_SECONDS",
         "ended by max_seconds at step 4 of 9"},
        {"{\"max_seconds\": 1, \"epochs\": 1}", /* a coordinator that has forgotten why */
         {.step = 4},
         "MAX_SECONDS",
         "ended by max_seconds at step 4 of 937"},
        {"{\"stop_at\": {\"value\": 0.75}}",
         {.cause = PS_STOP_GOAL, .step = 20, .has_value = true, .value = 0.5},
         "STOP_AT",
         "ended by stop_at at step 20 of 1874: accuracy had reached 0.75 and is 0.5 "
         "at the end"},
        {"{\"stop_at\": {\"value\": 0.75}}",
         {.step = 1874, .has_value = true, .value = 0.75},
         "STOP_AT",
         "ended by stop_at at step 1874 of 1874: accuracy 0.75 has reached 0.75"},
        {"{\"stop_at\": {\"value\": 0.75}}",
         {.step = 1874, .has_value = true, .value = 0.5},
         "",
         "accuracy 0.5 has not reached 0.75"},
        {"{\"stop_at\": {\"value\": 0.75}, \"max_steps\": 9}",
         {.step = 9, .has_value = true, .value = 0.5},
         "MAX_STEPS",
         "ended by max_steps at step 9 of 9: accuracy 0.5 has not reached 0.75"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_plan *plan = plan_of(cases[i].job);
        char reason[PS_STOP_REASON_MAX], text[PS_STOP_TEXT_MAX];

        ps_stop_describe(plan, &cases[i].end, reason, text);
        assert_string_equal(reason, cases[i].reason);
        assert_string_equal(text, cases[i].text);
        ps_plan_destroy(plan);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_beside_epochs),
        cmocka_unit_test(a_goal_has_a_direction),
        cmocka_unit_test(the_end_says_which_bound_it_was),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
