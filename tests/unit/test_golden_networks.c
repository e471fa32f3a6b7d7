/* SPDX-License-Identifier: Apache-2.0 */
/* test_golden_networks.c - the networks by name against PyTorch: outputs, loss, all
 * gradients, running statistics, and weights after five steps, as
 * tests/golden/make_networks.py wrote them.
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

enum { SAMPLES = 5, SPREAD = 24, STEPS = 5 };

/* Samples and targets as in the script: numbers, then ids. */
typedef struct facts {
    ps_shape in;
    uint32_t ids, vocabulary, classes;
    float rate; /* of the five steps */
} facts;

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

static void draw_samples(world *at, const facts *of)
{
    size_t size = ps_shape_size(&of->in), numbers = size - of->ids;
    uint64_t key = ps_draw_key(1, PS_DRAW_TEST, 0, 0, 0);
    uint64_t ids = ps_draw_key(1, PS_DRAW_TEST, 1, 0, 0);

    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t j = 0; j < numbers; j++) {
            at->x[i * size + j] = (float)((2.0 * ps_draw_unit(key, i * numbers + j) - 1.0) * 0.5);
        }
        for (size_t j = 0; j < of->ids; j++) {
            at->x[i * size + numbers + j] =
                (float)floor(ps_draw_unit(ids, i * of->ids + j) * of->vocabulary);
        }
        at->classes[i] = (float)(i * 3 % of->classes);
    }
}

static void world_init(world *at, const char *name, const ps_layer_spec *specs, size_t count,
                       const char *loss, const facts *of)
{
    golden_tensor parameters = golden_read(name, "parameters");
    size_t trained = 0;
    ps_status st = ps_model_create(specs, count, of->in, ps_loss_find(loss), SAMPLES, &at->model);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", name, st.text);
    }
    at->name = name;
    at->count = ps_model_param_count(at->model);
    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);

        trained += var->is_state ? 0 : var->size;
    }
    assert_int_equal(trained, (size_t)parameters.v[0]);
    at->w = ps_xcalloc(at->count, sizeof *at->w);
    at->g = ps_xcalloc(at->count, sizeof *at->g);
    at->x = ps_xcalloc(SAMPLES * ps_shape_size(&of->in), sizeof *at->x);
    draw_weights(at);
    draw_samples(at, of);
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
static void compare_some(const world *at, const float *values, const ps_variable *var,
                         const char *what, size_t index)
{
    golden_tensor norm = golden_of(at, what, index, ".norm");
    golden_tensor dot = golden_of(at, what, index, ".dot");
    golden_tensor spread = golden_of(at, what, index, ".spread");
    uint64_t key = ps_draw_key(2, PS_DRAW_TEST, index, 0, 0);
    size_t step = var->size / SPREAD > 1 ? var->size / SPREAD : 1;
    float some[GOLDEN_VALUES_MAX];
    double squares = 0, sum = 0, size = (double)norm.v[0];

    for (size_t i = 0; i < var->size; i++) {
        squares += (double)values[i] * (double)values[i];
        sum += (double)values[i] * (2.0 * ps_draw_unit(key, i) - 1.0);
    }
    assert_true(is_close(sqrt(squares), size, 1e-5 * size, what, index));
    assert_true(is_close(sum, (double)dot.v[0], 1e-5 * size, what, index));
    assert_int_equal(spread.n, (var->size + step - 1) / step);
    for (size_t i = 0; i < spread.n; i++) {
        some[i] = values[i * step];
    }
    golden_compare(some, &spread, share, var->name);
}

static ps_score train(const world *at)
{
    ps_score score = {0};

    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), SAMPLES,
                   1.0f / SAMPLES, false, at->g, NULL, &score);
    return score;
}

/* w -= by * gradient, and state by its decrement. */
static void descend(const world *at, float by)
{
    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);
        float factor = var->is_state ? 1.0f : by;

        for (size_t i = var->at; i < var->at + var->size; i++) {
            at->w[i] -= factor * at->g[i];
        }
    }
}

/* All trained variables by one name, and state by another. */
static void compare_all(const world *at, const float *block, const char *trained_name,
                        const char *state_name)
{
    size_t trained = 0, state = 0;

    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);

        if (!var->is_state && trained_name != NULL) {
            compare_some(at, block + var->at, var, trained_name, trained);
        } else if (var->is_state && state_name != NULL) {
            compare_some(at, block + var->at, var, state_name, state);
        }
        trained += !var->is_state;
        state += var->is_state;
    }
}

static void compare_with_pytorch(const char *name, const ps_layer_spec *specs, size_t count,
                                 const char *loss, const facts *of)
{
    golden_tensor want = golden_read(name, "loss"), eval = golden_read(name, "eval");
    ps_score score;
    world at;

    world_init(&at, name, specs, count, loss, of);
    score = train(&at);
    assert_true(is_close(score.loss_sum / SAMPLES, (double)want.v[0], 1e-6, "loss", 0));
    compare_all(&at, at.g, "gradient", NULL);
    descend(&at, 0.0f); /* state alone moves */
    compare_all(&at, at.w, NULL, "state");
    assert_int_equal(eval.n, SAMPLES * ps_model_output_width(at.model));
    golden_compare(ps_model_predict(at.model, at.w, at.x, SAMPLES), &eval, share, "eval");
    for (size_t i = 0; i < STEPS; i++) {
        train(&at);
        descend(&at, of->rate);
    }
    compare_all(&at, at.w, "after", "state_after");
    world_fini(&at);
}

static void compare_network(const char *name, facts of)
{
    const ps_network *network = ps_network_find(name);
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    ps_network_facts given = {.features = (uint32_t)ps_shape_size(&of.in),
                              .ids = of.ids,
                              .vocabulary = of.vocabulary,
                              .classes = of.classes,
                              .outputs = of.classes};
    ps_params params;
    size_t count;
    ps_status st;

    assert_non_null(network);
    params = ps_params_default(network->params);
    st = ps_network_specs(network, &given, &params, specs, &count);
    assert_true(ps_is_ok(&st));
    for (size_t i = 0; i < count; i++) {
        int drops = ps_param_find(specs[i].layer->params, "rate");

        if (drops >= 0) { /* no draws of PyTorch's can be made here */
            specs[i].params.v[drops] = 0;
        }
    }
    compare_with_pytorch(name, specs, count,
                         network->loss != NULL ? network->loss : "softmax_cross_entropy", &of);
    free(specs);
}

static const facts digit = {.in = {.rank = 3, .dim = {1, 28, 28}}, .classes = 10, .rate = 0.05f};
static const facts image = {.in = {.rank = 3, .dim = {3, 32, 32}}, .classes = 10, .rate = 0.05f};

static void cnn_is_that_of_pytorch(void **state)
{
    (void)state;
    compare_network("cnn", digit);
}

static void alexnet_is_that_of_pytorch(void **state)
{
    (void)state;
    compare_network("alexnet", image);
}

static void residual_networks_are_those_of_pytorch(void **state)
{
    facts other = image;

    (void)state;
    other.rate = 0.002f; /* the script says why */
    compare_network("resnet14", other);
    compare_network("resnet18", other);
    compare_network("resnet20", other);
}

static void networks_over_ids_are_those_of_pytorch(void **state)
{
    (void)state;
    compare_network("ngram",
                    (facts){.in = {1, {4}}, .ids = 4, .vocabulary = 50, .classes = 50, .rate = 0.05f});
    compare_network("skipgram",
                    (facts){.in = {1, {7}}, .ids = 7, .vocabulary = 60, .classes = 6, .rate = 0.05f});
    compare_network(
        "wide_deep",
        (facts){.in = {1, {39}}, .ids = 26, .vocabulary = 200, .classes = 2, .rate = 0.05f});
}

/* 62 million parameters: built, and a step made that makes the loss of its sample less. */
static void the_large_alexnet_steps(void **state)
{
    const ps_network *network = ps_network_find("alexnet227");
    const ps_network_facts given = {.features = 154587, .classes = 10, .outputs = 10};
    ps_params params = {{0}};
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    size_t count;
    ps_score before, after;
    world at;
    ps_status st = ps_network_specs(network, &given, &params, specs, &count);

    (void)state;
    assert_true(ps_is_ok(&st));
    st = ps_model_create(specs, count, (ps_shape){.rank = 3, .dim = {3, 227, 227}},
                         ps_loss_find("softmax_cross_entropy"), SAMPLES, &at.model);
    assert_true(ps_is_ok(&st));
    at.count = ps_model_param_count(at.model);
    assert_int_equal(at.count, 62388354);
    at.w = ps_xcalloc(at.count, sizeof *at.w);
    at.g = ps_xcalloc(at.count, sizeof *at.g);
    at.x = ps_xcalloc(SAMPLES * given.features, sizeof *at.x);
    ps_model_init(at.model, 1, at.w);
    draw_uniform(1, 0.5f, at.x, given.features);
    at.classes[0] = 7;
    before = (ps_score){0};
    after = (ps_score){0};
    ps_model_train(at.model, at.w, at.x, ps_targets_classes(at.classes), 1, 1.0f, false, at.g, NULL,
                   &before);
    descend(&at, 0.05f);
    ps_model_eval(at.model, at.w, at.x, ps_targets_classes(at.classes), 1, &after);
    assert_true(is_close(before.loss_sum, log(10.0), 0.2, "loss", 0));
    assert_true(after.loss_sum < before.loss_sum);
    world_fini(&at);
    free(specs);
}

typedef struct mixed_layer {
    const char *kind;
    double first[5]; /* numbers, in the order of the kind's table */
    size_t count;
} mixed_layer;

static void a_mixed_network_with_running_statistics_is_that_of_pytorch(void **state)
{
    static const mixed_layer layers[] = {
        {"conv2d", {6, 3, 2, 1, 0}, 5},
        {"batch_norm", {0}, 0},
        {"leaky_relu", {0}, 0},
        {"avgpool2d", {3, 2, 1}, 3},
        {"conv2d", {9, 2, 1, 2, 0}, 5},
        {"maxpool2d", {3, 2, 1}, 3},
        {"hard_tanh", {0}, 0},
        {"batch_norm", {0}, 0},
        {"global_avgpool", {0}, 0},
        {"flatten", {0}, 0},
        {"dense", {10}, 1},
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
    compare_with_pytorch("mixed", specs, COUNT, "softmax_cross_entropy",
                         &(facts){.in = {.rank = 3, .dim = {3, 15, 13}}, .classes = 10, .rate = 0.05f});
}

/* With a golden file, under this name or, where it is but another name, that one. */
static void has_golden(const ps_network *network, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_network_find(network->name), network);
    assert_true(strlen(network->summary) > 0);
    if (strcmp(network->name, "resnet") == 0) {
        assert_ptr_equal(network->build, ps_network_find("resnet14")->build);
    } else if (strcmp(network->name, "alexnet227") != 0) { /* it has a test of its own */
        assert_int_equal(golden_read(network->name, "parameters").n, 1);
    }
}

static void every_network_is_compared(void **state)
{
    size_t count = 0;

    (void)state;
    ps_network_each(has_golden, &count);
    assert_int_equal(count, 10);
    assert_null(ps_network_find("vgg"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_is_compared),
        cmocka_unit_test(cnn_is_that_of_pytorch),
        cmocka_unit_test(alexnet_is_that_of_pytorch),
        cmocka_unit_test(the_large_alexnet_steps),
        cmocka_unit_test(residual_networks_are_those_of_pytorch),
        cmocka_unit_test(networks_over_ids_are_those_of_pytorch),
        cmocka_unit_test(a_mixed_network_with_running_statistics_is_that_of_pytorch),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
