/* SPDX-License-Identifier: Apache-2.0 */
/* test_golden_descent.c - weights after twelve steps with each schedule, penalty and kind
 * of clipping, against PyTorch's, as tests/golden/make_golden.py wrote them.
 */
#include "common/nn/model.h"
#include "common/optim/clip.h"
#include "common/optim/descent.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/golden.h"

#include <stdio.h>
#include <string.h>

/* Of a tensor's greatest value, as sums cancel. */
static const double share = 0.01;

enum { IN = 12, CLASSES = 5, BATCH = 6, STEPS = 12, PARAMS = 227, SLOTS_MAX = 2 };

typedef struct setting {
    const char *name;
    double value;
} setting;

/* Numbers of make_golden.py; what is not given is the default. */
typedef struct golden_case {
    const char *name, *rule;
    setting rule_numbers[2];
    const char *schedule;
    setting schedule_numbers[3];
    double l1, l2;
    const char *clip;
    double limit;
} golden_case;

static const golden_case cases[] = {
    {"step",
     "momentum",
     {{"lr", 0.05}},
     "step",
     .schedule_numbers = {{"every", 4}, {"gamma", 0.5}}},
    {"exponential",
     "adam",
     {{"lr", 0.01}},
     "exponential",
     .schedule_numbers = {{"every", 1}, {"gamma", 0.9}}},
    {"cosine", "adam", {{"lr", 0.01}}, "cosine", .schedule_numbers = {{"end", 0.1}}},
    {"cosine_adamw",
     "adamw",
     {{"lr", 0.01}, {"weight_decay", 0.1}},
     "cosine",
     .schedule_numbers = {{NULL, 0}}},
    {"polynomial", "momentum", {{"lr", 0.05}}, "polynomial", .schedule_numbers = {{"power", 2}}},
    {"line",
     "momentum",
     {{"lr", 0.05}},
     "polynomial",
     .schedule_numbers = {{"end", 0.2}, {"over", 12}}},
    {"inverse_sqrt", "momentum", {{"lr", 0.05}}, "inverse_sqrt", .schedule_numbers = {{NULL, 0}}},
    {"warmup",
     "momentum",
     {{"lr", 0.05}},
     "constant",
     .schedule_numbers = {{"warmup", 5}, {"warmup_start", 0.1}}},
    {"warmup_cosine",
     "adam",
     {{"lr", 0.01}},
     "cosine",
     .schedule_numbers = {{"warmup", 5}, {"warmup_start", 0.1}}},
    {"l2", "momentum", {{"lr", 0.05}}, .l2 = 0.1},
    {"l2_adam", "adam", {{"lr", 0.01}}, .l2 = 0.1},
    {"l1", "momentum", {{"lr", 0.05}}, .l1 = 0.02},
    {"value", "momentum", {{"lr", 0.05}}, .clip = "value", .limit = 0.02},
    {"norm", "momentum", {{"lr", 0.05}}, .clip = "norm", .limit = 0.1},
    {"global_norm", "momentum", {{"lr", 0.05}}, .clip = "global_norm", .limit = 0.1},
};

enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static ps_params params_of(const ps_param *table, const setting *settings, size_t count)
{
    ps_params params = ps_params_default(table);

    for (size_t i = 0; i < count && settings[i].name != NULL; i++) {
        int at = ps_param_find(table, settings[i].name);

        assert_true(at >= 0);
        params.v[at] = settings[i].value;
    }
    return params;
}

static ps_descent descent_of(const golden_case *c)
{
    ps_descent d = {
        .optim = ps_optim_find(c->rule), .total_steps = STEPS, .l1 = c->l1, .l2 = c->l2};

    assert_non_null(d.optim);
    d.params = params_of(d.optim->params, c->rule_numbers, 2);
    if (c->schedule != NULL) {
        d.schedule = ps_schedule_find(c->schedule);
        assert_non_null(d.schedule);
        d.schedule_params = params_of(d.schedule->params, c->schedule_numbers, 3);
    }
    return d;
}

static ps_layer_spec spec_of(const char *kind, unsigned units)
{
    ps_layer_spec spec = {.layer = ps_layer_find(kind)};

    spec.params.v[0] = units;
    snprintf(spec.name, sizeof spec.name, "%s", kind);
    return spec;
}

static ps_model *new_model(void)
{
    ps_layer_spec specs[5] = {spec_of("dense", 9), spec_of("tanh", 0), spec_of("dense", 7),
                              spec_of("tanh", 0), spec_of("dense", CLASSES)};
    ps_model *model = NULL;
    ps_status st = ps_model_create(specs, 5, (ps_shape){.rank = 1, .dim = {IN}},
                                   ps_loss_find("softmax_cross_entropy"), BATCH, &model);

    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_model_param_count(model), PARAMS);
    return model;
}

static void clip(const ps_model *model, const golden_case *c, float *g)
{
    const ps_clip *how = ps_clip_find(c->clip);

    switch (how->unit) {
    case PS_CLIP_NOTHING:
        break;
    case PS_CLIP_VALUE:
        ps_clip_values(g, PARAMS, (float)c->limit);
        break;
    case PS_CLIP_VARIABLE:
        for (size_t v = 0; v < ps_model_variable_count(model); v++) {
            const ps_variable *var = ps_model_variable(model, v);

            ps_clip_to_norm(g + var->at, var->size, ps_clip_square_sum(g + var->at, var->size),
                            c->limit);
        }
        break;
    case PS_CLIP_ALL:
        ps_clip_to_norm(g, PARAMS, ps_clip_square_sum(g, PARAMS), c->limit);
        break;
    }
}

static void compare(const golden_case *c)
{
    ps_descent descent = descent_of(c);
    golden_tensor x = golden_read("mlp", "x"), w = golden_read("mlp", "weights");
    golden_tensor labels = golden_read("mlp", "labels"), want = golden_read("descent", c->name);
    float state[SLOTS_MAX * PARAMS] = {0}, g[PARAMS];
    ps_model *model = new_model();

    for (uint64_t t = 1; t <= STEPS; t++) {
        ps_moment at = {.t = t, .step = t - 1, .share = 1};
        ps_score score = {0};

        ps_model_train(model, w.v, x.v, ps_targets_classes(labels.v), BATCH, 1.0f / BATCH, false, g,
                       NULL, &score);
        if (c->clip != NULL) {
            clip(model, c, g);
        }
        ps_descent_step(&descent, at, g, g, w.v, state, w.v, PARAMS);
    }
    golden_compare(w.v, &want, share, c->name);
    ps_model_destroy(model);
}

static void twelve_steps_end_where_pytorch_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        compare(&cases[i]);
    }
}

static void count_schedule(const ps_schedule *schedule, void *arg)
{
    size_t i = 0;

    (void)arg;
    while (i < CASE_COUNT &&
           (cases[i].schedule == NULL || strcmp(cases[i].schedule, schedule->name) != 0)) {
        i++;
    }
    assert_true(i < CASE_COUNT);
}

static void every_schedule_is_among_the_cases(void **state)
{
    (void)state;
    ps_schedule_each(count_schedule, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twelve_steps_end_where_pytorch_ends),
        cmocka_unit_test(every_schedule_is_among_the_cases),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
