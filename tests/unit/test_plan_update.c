/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_update.c - jobs whose workers take local steps: what they are completed
 * to, and what they cannot go together with. */
#include "tests/support/plan_rig.h"

#include <stdio.h>
#include <string.h>

static void what_local_steps_do_not_go_with_is_refused(void **state)
{
    (void)state;
    assert_refused("{\"workers\":2,\"update\":{\"name\":\"localsgd\"},\"assignment\":"
                   "{\"name\":\"iid\",\"params\":{\"redundancy\":2}}}",
                   "spec.assignment.params.redundancy", "1 is allowed");
    assert_refused("{\"update\":{\"name\":\"localsgd\"},\"optimizer\":"
                   "{\"side\":\"OPTIMIZER_SIDE_WORKER\"}}",
                   "spec.optimizer.side", "SERVER is allowed");
    assert_refused("{\"update\":{\"name\":\"dc_asgd\"}}", "spec.consistency.name", "asp");
    assert_refused("{\"update\":{\"name\":\"scaffold\"},\"consistency\":{\"name\":\"asp\"}}",
                   "spec.consistency.name", "bsp is allowed");
    assert_refused("{\"update\":{\"name\":\"scaffold\"},\"optimizer\":{\"local\":"
                   "{\"name\":\"adam\"}}}",
                   "spec.optimizer.local.name", "sgd alone");
    assert_refused("{\"workers\":4,\"update\":{\"name\":\"localsgd\"},\"consistency\":"
                   "{\"name\":\"quorum\"}}",
                   "spec.consistency.name", "would be lost");
    assert_refused("{\"optimizer\":{\"local\":{\"name\":\"sgd\"}}}", "spec.optimizer.local",
                   "no steps of their own");
    assert_refused("{\"update\":{\"name\":\"localsgd\"},\"optimizer\":{\"local\":"
                   "{\"name\":\"lion\"}}}",
                   "spec.optimizer.local.name", "adam");
    assert_refused("{\"update\":{\"name\":\"fedavg\",\"params\":{\"fraction\":0}}}",
                   "spec.update.params.fraction", "0.001 to 1");
}

static void an_update_with_local_steps_has_two_rules_and_counts_rounds(void **state)
{
    ps_plan *plan = plan_of("{\"block_size\":100,\"epochs\":1,\"data\":{\"name\":\"glyphs\","
                            "\"train_limit\":1000},\"update\":"
                            "{\"name\":\"localsgd\",\"params\":{\"steps\":4}}}");

    (void)state;
    assert_int_equal(plan->total_steps, 10);
    assert_int_equal(plan->total_clocks, 3);
    assert_string_equal(plan->optim->name, "sgd");
    assert_true(plan->optim_params.v[0] == 1.0);
    assert_string_equal(plan->local_optim->name, "sgd");
    assert_string_equal(plan->spec->optimizer->local->name, "sgd");
    ps_plan_destroy(plan);

    plan =
        plan_of("{\"update\":{\"name\":\"localsgd\"},\"optimizer\":{\"rule\":{\"name\":\"adam\"},"
                "\"local\":{\"name\":\"momentum\",\"params\":{\"lr\":0.5}}}}");
    assert_string_equal(plan->optim->name, "adam");
    assert_true(plan->optim_params.v[0] == 0.001);
    assert_string_equal(plan->local_optim->name, "momentum");
    assert_true(plan->local_params.v[0] == 0.5);
    ps_plan_destroy(plan);

    plan = plan_of("{}");
    assert_null(plan->local_optim);
    assert_true(plan->total_clocks == plan->total_steps);
    ps_plan_destroy(plan);
}

static void the_compensation_has_a_schedule_of_its_own(void **state)
{
    ps_plan *plan = plan_of("{\"update\":{\"name\":\"losp\"},\"optimizer\":{\"schedule\":{\"name\":"
                            "\"cosine\"},\"compensation_schedule\":{\"name\":\"step\",\"params\":"
                            "{\"every\":7}}}}");

    (void)state;
    assert_string_equal(plan->compensation_schedule->name, "step");
    assert_string_equal(plan->local_descent.schedule->name, "cosine");
    assert_null(plan->descent.schedule);
    ps_plan_destroy(plan);

    plan = plan_of("{\"update\":{\"name\":\"dqlosp\"}}");
    assert_string_equal(plan->compensation_schedule->name, "constant");
    ps_plan_destroy(plan);

    plan = plan_of("{\"update\":{\"name\":\"osp\"}}");
    assert_null(plan->compensation_schedule);
    ps_plan_destroy(plan);
    assert_refused("{\"update\":{\"name\":\"osp\"},\"optimizer\":{\"compensation_schedule\":"
                   "{\"name\":\"step\"}}}",
                   "spec.optimizer.compensation_schedule", "osp has no number compensation");
    assert_refused("{\"update\":{\"name\":\"losp\"},\"optimizer\":{\"compensation_schedule\":"
                   "{\"params\":{\"warmup\":1000000}}}}",
                   "spec.optimizer.compensation_schedule.params.warmup", "fewer are allowed");
}

static void a_completed_job_makes_the_same_plan_again(void **state)
{
    ps_plan *one = plan_of("{\"workers\":2,\"update\":{\"name\":\"fedavg\"}}"), *two = NULL;
    ps_status st = ps_plan_create(one->spec, NULL, NULL, &two);

    (void)state;
    assert_string_equal(st.text, "");
    assert_true(one->total_clocks == two->total_clocks);
    assert_memory_equal(&one->optim_params, &two->optim_params, sizeof one->optim_params);
    assert_memory_equal(&one->local_params, &two->local_params, sizeof one->local_params);
    ps_plan_destroy(one);
    ps_plan_destroy(two);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_local_steps_do_not_go_with_is_refused),
        cmocka_unit_test(an_update_with_local_steps_has_two_rules_and_counts_rounds),
        cmocka_unit_test(the_compensation_has_a_schedule_of_its_own),
        cmocka_unit_test(a_completed_job_makes_the_same_plan_again),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
