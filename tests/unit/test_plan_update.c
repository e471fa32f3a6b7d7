/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_update.c - jobs whose workers take local steps: what they are completed
 * to, and what they cannot go together with. */
#include "tests/support/cmocka_all.h"

#include "common/job/plan.h"
#include "common/rpc/pbjson.h"

#include <stdio.h>
#include <string.h>

typedef struct found {
    size_t count;
    char text[4096]; /* "field: text" a line */
} found;

static void note(void *arg, const char *field, const char *text)
{
    found *f = arg;
    size_t at = strlen(f->text);

    f->count++;
    snprintf(f->text + at, sizeof f->text - at, "%s: %s\n", field, text);
}

static Psgd__V1__JobSpec *spec_of(const char *json)
{
    ProtobufCMessage *message = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_status st;

    assert_non_null(tree);
    st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &message);
    json_decref(tree);
    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    return (Psgd__V1__JobSpec *)message;
}

static void free_spec(Psgd__V1__JobSpec *spec)
{
    psgd__v1__job_spec__free_unpacked(spec, NULL);
}

static ps_plan *plan_of(const char *json)
{
    Psgd__V1__JobSpec *spec = spec_of(json);
    ps_plan *plan = NULL;
    found f = {0};
    ps_status st = ps_plan_create(spec, note, &f, &plan);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", json, f.text);
    }
    free_spec(spec);
    return plan;
}

/* The job is refused, with exactly one violation: of `field`, with `words` in it. */
static void assert_refused(const char *json, const char *field, const char *words)
{
    Psgd__V1__JobSpec *spec = spec_of(json);
    ps_plan *plan = NULL;
    found f = {0};
    ps_status st = ps_plan_create(spec, note, &f, &plan);
    size_t n = strlen(field);

    if (st.code != PS_INVALID_ARGUMENT || f.count != 1 || strncmp(f.text, field, n) != 0 ||
        f.text[n] != ':' || strstr(f.text, words) == NULL) {
        fail_msg("%s: wanted %s with \"%s\", got %zu:\n%s", json, field, words, f.count, f.text);
    }
    assert_null(plan);
    assert_null(plan);
    free_spec(spec);
}

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
        cmocka_unit_test(a_completed_job_makes_the_same_plan_again),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
