/* SPDX-License-Identifier: Apache-2.0 */
/* test_golden.c - the engine against PyTorch: logits, loss, gradients, and weights after
 * five steps of each optimizer, as tests/golden/make_golden.py wrote them.
 */
#include "common/base/xalloc.h"
#include "common/nn/model.h"
#include "common/optim/optim.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/golden.h"

#include <stdlib.h>
#include <string.h>

/* Of a tensor's greatest value, as sums cancel. */
static const double share = 0.01;

enum { IN = 12, CLASSES = 5, BATCH = 6, STEPS = 5, PARAMS = 227 };

/* The golden_tensor of that name in the golden file. */
static golden_tensor golden(const char *name)
{
    return golden_read("mlp", name);
}

static golden_tensor golden_of(const char *kind, const char *what, int index)
{
    char name[64];

    if (index < 0) {
        snprintf(name, sizeof name, "%s.%s", kind, what);
    } else {
        snprintf(name, sizeof name, "%s.%s%d", kind, what, index);
    }
    return golden(name);
}

typedef struct world {
    const char *kind;
    ps_model *model;
    golden_tensor x, w;
    float classes[BATCH];
    float g[PARAMS];
} world;

static ps_layer_spec spec_of(const char *kind, unsigned units)
{
    ps_layer_spec spec = {.layer = ps_layer_find(kind)};

    spec.params.v[0] = units;
    snprintf(spec.name, sizeof spec.name, "%s", kind);
    return spec;
}

static void world_init(world *at, const char *kind)
{
    ps_layer_spec specs[5] = {spec_of("dense", 9), spec_of(kind, 0), spec_of("dense", 7),
                              spec_of(kind, 0), spec_of("dense", CLASSES)};
    golden_tensor labels = golden("labels");
    ps_status st = ps_model_create(specs, 5, (ps_shape){.rank = 1, .dim = {IN}},
                                   ps_loss_find("softmax_cross_entropy"), BATCH, &at->model);

    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_model_param_count(at->model), PARAMS);
    at->kind = kind;
    at->x = golden("x");
    at->w = golden("weights");
    for (size_t i = 0; i < BATCH; i++) {
        at->classes[i] = (float)labels.v[i];
    }
}

static ps_score train(world *at)
{
    ps_score score = {0};

    ps_model_train(at->model, at->w.v, at->x.v, ps_targets_classes(at->classes), BATCH,
                   1.0f / BATCH, false, at->g, NULL, &score);
    return score;
}

static void compare_gradients(const char *kind)
{
    world at;
    golden_tensor want;
    ps_score score;

    world_init(&at, kind);
    score = train(&at);
    want = golden_of(kind, "loss", -1);
    assert_true(is_close(score.loss_sum / BATCH, (double)want.v[0], 1e-6, "loss", 0));
    want = golden_of(kind, "logits", -1);
    golden_compare(ps_model_predict(at.model, at.w.v, at.x.v, BATCH), &want, share, "logits");
    for (int v = 0; v < 6; v++) {
        const ps_variable *var = ps_model_variable(at.model, (size_t)v);

        want = golden_of(kind, "gradient", v);
        assert_int_equal(want.n, var->size);
        golden_compare(at.g + var->at, &want, share, var->name);
    }
    ps_model_destroy(at.model);
}

static void compare_steps(const char *kind, const char *optimizer, double rate)
{
    const ps_optim *optim = ps_optim_find(optimizer);
    ps_params params = ps_params_default(optim->params);
    golden_tensor want = golden_of(kind, optimizer, -1);
    float *slots = ps_xcalloc((size_t)PARAMS * optim->slots, sizeof *slots);
    world at;

    params.v[0] = rate;
    world_init(&at, kind);
    for (uint64_t t = 1; t <= STEPS; t++) {
        train(&at);
        optim->step(&params, t, at.g, at.w.v, slots, at.w.v, PARAMS);
    }
    golden_compare(at.w.v, &want, share, optimizer);
    free(slots);
    ps_model_destroy(at.model);
}

static void every(void (*fn)(const char *kind))
{
    fn("tanh");
    fn("relu");
    fn("sigmoid");
}

/* Rates of make_golden.py; the other numbers are the defaults. */
static const struct {
    const char *optimizer;
    double rate;
} steps[] = {
    {"sgd", 0.05},     {"momentum", 0.05}, {"nesterov", 0.05}, {"adam", 0.001}, {"adamw", 0.001},
    {"adagrad", 0.01}, {"rmsprop", 0.01},  {"adadelta", 1.0},  {"decay", 0.03},
};

static void count_optimizer(const ps_optim *optim, void *arg)
{
    size_t i = 0;

    while (i < sizeof steps / sizeof steps[0] && strcmp(steps[i].optimizer, optim->name) != 0) {
        i++;
    }
    assert_true(i < sizeof steps / sizeof steps[0]);
    (*(size_t *)arg)++;
}

static void five_of_each(const char *kind)
{
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        compare_steps(kind, steps[i].optimizer, steps[i].rate);
    }
}

static void logits_loss_and_gradients_are_those_of_pytorch(void **state)
{
    (void)state;
    every(compare_gradients);
}

static void five_steps_of_each_optimizer_end_where_pytorch_ends(void **state)
{
    size_t count = 0;

    (void)state;
    ps_optim_each(count_optimizer, &count);
    assert_int_equal(count, sizeof steps / sizeof steps[0]);
    every(five_of_each);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_loss_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(five_steps_of_each_optimizer_end_where_pytorch_ends),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
