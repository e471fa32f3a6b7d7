/* SPDX-License-Identifier: Apache-2.0 */
/* test_golden_networks.c - networks of convolutions against PyTorch: outputs, loss, all
 * gradients and running statistics, as tests/golden/make_golden.py wrote them.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/network.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/golden.h"

#include <stdlib.h>
#include <string.h>

/* Sums of a gradient run over thousands of terms that cancel: relative to the greatest. */
static const double share = 1.0;

enum { SAMPLES = 5, CLASSES = 10, SPREAD = 24, LAYERS_MAX = 32 };

typedef struct world {
    const char *name; /* of the file */
    ps_model *model;
    size_t count;
    float *w, *g, *x;
    float classes[SAMPLES];
} world;

static void draw_uniform(uint64_t key, float limit, float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)((2.0 * ps_draw_unit(key, i) - 1.0) * (double)limit);
    }
}

/* As the script: uniform within 1 / sqrt(fan-in), vectors as the matrix before them;
 * state as it begins. */
static void draw_weights(world *at)
{
    float limit = 0.0f;
    uint64_t trained = 0;

    ps_model_init(at->model, 1, at->w);
    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);

        if (var->is_state) {
            continue;
        }
        if (var->shape.rank > 1) {
            limit = (float)(1.0 / sqrt((double)(var->size / var->shape.dim[0])));
        }
        draw_uniform(ps_draw_key(1, PS_DRAW_INIT, trained++, 0, 0), limit, at->w + var->at,
                     var->size);
    }
}

static void world_init(world *at, const char *name, const ps_layer_spec *specs, size_t count,
                       ps_shape in)
{
    golden_tensor parameters = golden_read(name, "parameters");
    size_t size = ps_shape_size(&in), trained = 0;
    ps_status st = ps_model_create(specs, count, in, ps_loss_find("softmax_cross_entropy"), SAMPLES,
                                   &at->model);

    assert_true(ps_is_ok(&st));
    at->name = name;
    at->count = ps_model_param_count(at->model);
    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);

        trained += var->is_state ? 0 : var->size;
    }
    assert_int_equal(trained, (size_t)parameters.v[0]);
    at->w = ps_xcalloc(at->count, sizeof *at->w);
    at->g = ps_xcalloc(at->count, sizeof *at->g);
    at->x = ps_xcalloc(SAMPLES * size, sizeof *at->x);
    draw_weights(at);
    draw_uniform(ps_draw_key(1, PS_DRAW_TEST, 0, 0, 0), 0.5f, at->x, SAMPLES * size);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        at->classes[i] = (float)(i * 3 % CLASSES);
    }
}

static void world_fini(world *at)
{
    ps_model_destroy(at->model);
    free(at->w);
    free(at->g);
    free(at->x);
}

static golden_tensor golden_of(const world *at, const char *what, size_t index, const char *which)
{
    char name[64];

    snprintf(name, sizeof name, "%s%zu%s", what, index, which);
    return golden_read(at->name, name);
}

/* Norm and a dot product with draws, to 1e-5 of the norm; some values, to 1e-5. */
static void compare_gradient(const world *at, const ps_variable *var, size_t index)
{
    golden_tensor norm = golden_of(at, "gradient", index, ".norm");
    golden_tensor dot = golden_of(at, "gradient", index, ".dot");
    golden_tensor spread = golden_of(at, "gradient", index, ".spread");
    uint64_t key = ps_draw_key(2, PS_DRAW_TEST, index, 0, 0);
    size_t step = var->size / SPREAD > 1 ? var->size / SPREAD : 1;
    const float *g = at->g + var->at;
    float some[GOLDEN_VALUES_MAX];
    double squares = 0, sum = 0, size = (double)norm.v[0];

    for (size_t i = 0; i < var->size; i++) {
        squares += (double)g[i] * (double)g[i];
        sum += (double)g[i] * (2.0 * ps_draw_unit(key, i) - 1.0);
    }
    assert_true(is_close(sqrt(squares), size, 1e-5 * size, "norm", index));
    assert_true(is_close(sum, (double)dot.v[0], 1e-5 * size, "dot", index));
    assert_int_equal(spread.n, (var->size + step - 1) / step);
    for (size_t i = 0; i < spread.n; i++) {
        some[i] = g[i * step];
    }
    golden_compare(some, &spread, share, var->name);
}

/* w -= decrement for the state of layer `var->layer`, which then is PyTorch's. */
static void move_state(const world *at, const ps_variable *var)
{
    bool is_mean = strstr(var->name, "running_mean") != NULL;
    golden_tensor want = golden_of(at, is_mean ? "running_mean" : "running_var", var->layer, "");

    for (size_t i = 0; i < var->size; i++) {
        at->w[var->at + i] -= at->g[var->at + i];
    }
    golden_compare(at->w + var->at, &want, share, var->name);
}

static void compare_with_pytorch(const char *name, const ps_layer_spec *specs, size_t count,
                                 ps_shape in)
{
    golden_tensor loss = golden_read(name, "loss"), eval = golden_read(name, "eval");
    ps_score score = {0};
    size_t trained = 0;
    world at;

    world_init(&at, name, specs, count, in);
    ps_model_train(at.model, at.w, at.x, ps_targets_classes(at.classes), SAMPLES, 1.0f / SAMPLES,
                   false, at.g, NULL, &score);
    assert_true(is_close(score.loss_sum / SAMPLES, (double)loss.v[0], 1e-6, "loss", 0));
    for (size_t v = 0; v < ps_model_variable_count(at.model); v++) {
        const ps_variable *var = ps_model_variable(at.model, v);

        if (var->is_state) {
            move_state(&at, var);
        } else {
            compare_gradient(&at, var, trained++);
        }
    }
    golden_compare(ps_model_predict(at.model, at.w, at.x, SAMPLES), &eval, share, "eval");
    world_fini(&at);
}

static void compare_network(const char *name, ps_shape in)
{
    const ps_network *network = ps_network_find(name);
    ps_layer_spec specs[LAYERS_MAX] = {{0}};

    assert_non_null(network);
    assert_true(network->count <= LAYERS_MAX);
    ps_network_specs(network, CLASSES, specs);
    for (size_t i = 0; i < network->count; i++) {
        int rate = ps_param_find(specs[i].layer->params, "rate");

        if (rate >= 0) { /* no draws of PyTorch's can be made here */
            specs[i].params.v[rate] = 0;
        }
    }
    compare_with_pytorch(name, specs, network->count, in);
}

static void cnn_is_that_of_pytorch(void **state)
{
    (void)state;
    compare_network("cnn", (ps_shape){.rank = 3, .dim = {1, 28, 28}});
}

static void alexnet_is_that_of_pytorch(void **state)
{
    (void)state;
    compare_network("alexnet", (ps_shape){.rank = 3, .dim = {3, 32, 32}});
}

typedef struct mixed_layer {
    const char *kind;
    double first[5]; /* numbers, in the order of the kind's table */
    size_t count;
} mixed_layer;

/* Positions as in the script: state is found by that of its layer. */
static void a_mixed_network_with_running_statistics_is_that_of_pytorch(void **state)
{
    static const mixed_layer layers[] = {
        {"conv2d", {6, 3, 2, 1, 0}, 5}, {"batch_norm", {0}, 0},
        {"leaky_relu", {0}, 0},         {"avgpool2d", {3, 2, 1}, 3},
        {"conv2d", {9, 2, 1, 2, 0}, 5}, {"maxpool2d", {3, 2, 1}, 3},
        {"hard_tanh", {0}, 0},          {"batch_norm", {0}, 0},
        {"global_avgpool", {0}, 0},     {"flatten", {0}, 0},
        {"dense", {CLASSES}, 1},
    };
    enum { COUNT = sizeof layers / sizeof layers[0] };
    ps_layer_spec specs[COUNT] = {{0}};

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        specs[i].layer = ps_layer_find(layers[i].kind);
        specs[i].params = ps_params_default(specs[i].layer->params);
        memcpy(specs[i].params.v, layers[i].first, layers[i].count * sizeof(double));
        snprintf(specs[i].name, sizeof specs[i].name, "layer%zu", i);
    }
    compare_with_pytorch("mixed", specs, COUNT, (ps_shape){.rank = 3, .dim = {3, 15, 13}});
}

static void count_network(const ps_network *network, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_network_find(network->name), network);
    assert_true(strlen(network->summary) > 0);
}

static void every_network_is_compared(void **state)
{
    size_t count = 0;

    (void)state;
    ps_network_each(count_network, &count);
    assert_int_equal(count, 2);
    assert_null(ps_network_find("vgg"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_is_compared),
        cmocka_unit_test(cnn_is_that_of_pytorch),
        cmocka_unit_test(alexnet_is_that_of_pytorch),
        cmocka_unit_test(a_mixed_network_with_running_statistics_is_that_of_pytorch),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
