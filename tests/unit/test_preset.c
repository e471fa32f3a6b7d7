/* SPDX-License-Identifier: Apache-2.0 */
/* test_preset.c - every preset is a job that is accepted. */
#include "common/job/preset.h"

#include "common/job/numbers.h"
#include "common/job/plan.h"
#include "common/job/spec.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

static void try_preset(const ps_preset *preset, void *arg)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    ps_plan *plan = NULL;
    ps_status st;

    spec.preset = (char *)preset->name; // NOLINT: protobuf-c's strings are not const
    st = ps_plan_create(&spec, NULL, NULL, &plan);
    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", preset->name, st.text);
    }
    assert_string_equal(plan->spec->preset, preset->name);
    assert_string_equal(plan->spec->title, preset->name);
    assert_true(preset->summary[0] != '\0');
    assert_ptr_equal(ps_preset_find(preset->name), preset);
    ps_plan_destroy(plan);
    ++*(size_t *)arg;
}

static void every_preset_is_a_job_that_is_accepted(void **state)
{
    size_t count = 0;

    (void)state;
    ps_preset_each(try_preset, &count);
    assert_true(count > 40);
    assert_null(ps_preset_find("no such preset"));
}

/* All that jobs can say. */
static void names_of_the_older_systems_are_presets(void **state)
{
    static const char *const names[] = {
        "ps",       "graddiff",
        "grad",     "simple",
        "dc",       "qpa",
        "q1",       "q2",
        "sgq",      "tqn",
        "laq",      "q_ext",
        "dc_qsgd",  "binary",
        "fedavg",   "adam_ps",
        "localsgd", "osp",
        "losp",     "dqlosp",
        "geo",      "half_async",
        "async",    "sync",
        "fast",     "paddle_v2_async",
        "plain",    "unicast",
        "ndc",      "ccdc",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_non_null(ps_preset_find(names[i]));
    }
}

static void the_tutorial_is_what_the_manual_says(void **state)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    ps_plan *plan = NULL;
    ps_status st;

    (void)state;
    spec.preset = (char[]){"tutorial"};
    st = ps_plan_create(&spec, NULL, NULL, &plan);
    assert_true(ps_is_ok(&st));
    assert_string_equal(plan->data->name, "mnist");
    assert_string_equal(plan->optim->name, "adam");
    assert_true(plan->optim_params.v[0] == 0.001);
    assert_int_equal(plan->layer_count, 5);
    assert_int_equal(plan->layout.param_count, 118282);
    assert_int_equal(plan->spec->workers, 2);
    assert_int_equal(plan->spec->pservers, 2);
    assert_int_equal(plan->spec->block_size, 64);
    assert_int_equal(plan->spec->epochs, 2);
    ps_plan_destroy(plan);
}

/* Its widths, activation and loss are those of another network. */
static void a_job_may_name_another_network_than_the_preset(void **state)
{
    static const char *const names[] = {"cnn", "resnet14"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char json[256];
        Psgd__V1__JobSpec *spec;
        ps_plan *plan = NULL;
        ps_status st;

        snprintf(json, sizeof json,
                 "{\"preset\":\"losp\",\"model\":{\"preset\":\"%s\"},\"data\":{\"name\":\"%s\"}}",
                 names[i], i == 0 ? "mnist" : "cifar10");
        spec = ps_spec_of_preset(json);
        st = ps_plan_create(spec, NULL, NULL, &plan);
        assert_string_equal(st.text, "");
        assert_string_equal(plan->spec->model->preset, names[i]);
        assert_int_equal(plan->spec->model->n_widths, 0);
        assert_string_equal(plan->update->name, "losp");
        ps_plan_destroy(plan);
        psgd__v1__job_spec__free_unpacked(spec, NULL);
    }
}

/* Where its embeddings live is the network's, whatever else is said of it; not another's. */
static void a_preset_s_table_stays_with_its_network(void **state)
{
    static const struct {
        const char *model, *table;
        double admit_count;
    } cases[] = {
        {"\"table\":{\"params\":{\"admit_count\":3}}", "sparse", 3},
        {"\"params\":{\"width\":4}", "sparse", 0},
        {"\"loss\":\"softmax_cross_entropy\"", "sparse", 0},
        {"\"preset\":\"wide_deep\"", "sparse", 0},
        {"\"table\":{\"name\":\"none\"}", "none", 0},
        {"\"preset\":\"mlp\"", "", 0},
        {"\"layers\":[{\"kind\":\"tanh\"}]", "", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const Psgd__V1__Choice *table;
        Psgd__V1__JobSpec *spec;
        char json[256];

        snprintf(json, sizeof json, "{\"preset\":\"fleet_ctr\",\"model\":{%s}}", cases[i].model);
        spec = ps_spec_of_preset(json);
        ps_spec_apply_preset(spec);
        table = spec->model->table;
        assert_string_equal(table == NULL ? "" : table->name, cases[i].table);
        if (cases[i].admit_count > 0) {
            assert_int_equal(table->n_params, 1);
            assert_string_equal(table->params[0]->key, "admit_count");
            assert_true(table->params[0]->value == cases[i].admit_count);
        }
        psgd__v1__job_spec__free_unpacked(spec, NULL);
    }
}

/* The copies that a preset gives each block are those of another assignment too. */
static void a_preset_s_copies_stay_with_another_assignment(void **state)
{
    static const char *const names[] = {"ndc", "ccdc"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Psgd__V1__JobSpec *spec;
        ps_plan *plan = NULL;
        char json[128];
        ps_status st;

        snprintf(json, sizeof json, "{\"preset\":\"%s\",\"assignment\":{\"name\":\"duplicate\"}}",
                 names[i]);
        spec = ps_spec_of_preset(json);
        ps_spec_apply_preset(spec);
        assert_string_equal(spec->assignment->name, "duplicate");
        assert_int_equal(ps_numbers_count(&spec->assignment->base), 1);
        assert_true(ps_numbers_at(&spec->assignment->base, 0).value == 2);
        st = ps_plan_create(spec, NULL, NULL, &plan);
        if (ps_is_ok(&st)) { /* else it says what does not go together */
            assert_int_equal(plan->assignment->redundancy, 2);
            ps_plan_destroy(plan);
        }
        psgd__v1__job_spec__free_unpacked(spec, NULL);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_is_a_job_that_is_accepted),
        cmocka_unit_test(names_of_the_older_systems_are_presets),
        cmocka_unit_test(a_job_may_name_another_network_than_the_preset),
        cmocka_unit_test(the_tutorial_is_what_the_manual_says),
        cmocka_unit_test(a_preset_s_copies_stay_with_another_assignment),
        cmocka_unit_test(a_preset_s_table_stays_with_its_network),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
