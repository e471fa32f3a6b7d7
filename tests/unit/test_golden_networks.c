/* SPDX-License-Identifier: Apache-2.0 */
/* test_golden_networks.c - the networks by name against PyTorch: outputs, loss, all
 * gradients, running statistics, and weights after five steps of each optimizer,
 * as tests/golden/make_networks.py wrote them.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/network.h"
#include "common/optim/optim.h"

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
    double slower; /* factor of the optimizers' rates, as the script's, which says why */
} facts;

/* As in the script: of those with an epsilon one above the rounding of gradients, else their
 * default numbers. */
static const struct {
    const char *optimizer;
    double rate, epsilon;
} rules[] = {
    {"sgd", 0.05, 0},         {"momentum", 0.05, 0},  {"nesterov", 0.05, 0},
    {"adam", 0.001, 1e-4},    {"adamw", 0.001, 1e-4}, {"adagrad", 0.001, 1e-4},
    {"rmsprop", 0.001, 1e-4}, {"adadelta", 0.1, 0},   {"decay", 0.05, 0},
};

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

/* Norm and a dot product with draws, to 1e-5 of the norm. */
static void compare_sums(const float *values, const ps_variable *var, double norm, double dot,
                         const char *what, size_t index)
{
    uint64_t key = ps_draw_key(2, PS_DRAW_TEST, index, 0, 0);
    double squares = 0, sum = 0;

    for (size_t i = 0; i < var->size; i++) {
        squares += (double)values[i] * (double)values[i];
        sum += (double)values[i] * (2.0 * ps_draw_unit(key, i) - 1.0);
    }
    assert_true(is_close(sqrt(squares), norm, 1e-5 * norm, what, index));
    assert_true(is_close(sum, dot, 1e-5 * norm, what, index));
}

/* These; some values, to 1e-5. */
static void compare_some(const world *at, const float *values, const ps_variable *var,
                         const char *what, size_t index)
{
    golden_tensor norm = golden_of(at, what, index, ".norm");
    golden_tensor dot = golden_of(at, what, index, ".dot");
    golden_tensor spread = golden_of(at, what, index, ".spread");
    size_t step = var->size / SPREAD > 1 ? var->size / SPREAD : 1;
    float some[GOLDEN_VALUES_MAX];

    compare_sums(values, var, (double)norm.v[0], (double)dot.v[0], what, index);
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

/* A step of the rule with its numbers, the t-th; state moves by its decrement. `slots` is the
 * rule's state for the whole block, NULL where it has none. */
static void descend(const world *at, const ps_optim *rule, const ps_params *params, uint64_t t,
                    float *slots)
{
    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);

        if (!var->is_state) {
            rule->step(params, t, at->g + var->at, at->w + var->at,
                       slots == NULL ? NULL : slots + var->at * rule->slots, at->w + var->at,
                       var->size);
            continue;
        }
        for (size_t i = var->at; i < var->at + var->size; i++) {
            at->w[i] -= at->g[i];
        }
    }
}

/* STEPS of it from the weights that are there. */
static void descend_five(const world *at, size_t which, double slower)
{
    const ps_optim *rule = ps_optim_find(rules[which].optimizer);
    ps_params params = ps_params_default(rule->params);
    float *slots = rule->slots == 0 ? NULL : ps_xcalloc(at->count * rule->slots, sizeof *slots);

    params.v[0] = rules[which].rate * slower;
    if (rules[which].epsilon > 0) {
        params.v[0] *= slower < 1 ? 0.1 : 1;
        params.v[ps_param_find(rule->params, "epsilon")] = rules[which].epsilon;
    }
    for (uint64_t t = 1; t <= STEPS; t++) {
        train(at);
        descend(at, rule, &params, t, slots);
    }
    free(slots);
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

/* Each optimizer from the weights that are there; at->w then has those of the first. */
static void compare_descents(const world *at, double slower)
{
    float *begun = ps_xmalloc(at->count * sizeof *begun), *w = at->w;

    memcpy(begun, w, at->count * sizeof *begun);
    for (size_t r = sizeof rules / sizeof rules[0]; r-- > 0;) {
        char name[64];
        golden_tensor norms, dots;
        size_t trained = 0;

        snprintf(name, sizeof name, "%s.norms", rules[r].optimizer);
        norms = golden_read(at->name, name);
        snprintf(name, sizeof name, "%s.dots", rules[r].optimizer);
        dots = golden_read(at->name, name);
        memcpy(w, begun, at->count * sizeof *begun);
        descend_five(at, r, slower);
        for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
            const ps_variable *var = ps_model_variable(at->model, v);

            if (!var->is_state) {
                compare_sums(w + var->at, var, (double)norms.v[trained], (double)dots.v[trained],
                             rules[r].optimizer, trained);
                trained++;
            }
        }
        assert_int_equal(trained, norms.n);
    }
    free(begun);
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
    descend(&at, ps_optim_find("sgd"), &(ps_params){{0}}, 1, NULL); /* state alone moves */
    compare_all(&at, at.w, NULL, "state");
    assert_int_equal(eval.n, SAMPLES * ps_model_output_width(at.model));
    golden_compare(ps_model_predict(at.model, at.w, at.x, SAMPLES), &eval, share, "eval");
    compare_descents(&at, of->slower);
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

static const facts digit = {.in = {.rank = 3, .dim = {1, 28, 28}}, .classes = 10, .slower = 1};
static const facts image = {.in = {.rank = 3, .dim = {3, 32, 32}}, .classes = 10, .slower = 1};

static void linear_is_that_of_pytorch(void **state)
{
    (void)state;
    compare_network("linear", digit);
}

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
    other.slower = 0.04; /* the script says why */
    compare_network("resnet14", other);
    compare_network("resnet18", other);
    compare_network("resnet20", other);
}

static void networks_over_ids_are_those_of_pytorch(void **state)
{
    (void)state;
    compare_network(
        "ngram", (facts){.in = {1, {4}}, .ids = 4, .vocabulary = 50, .classes = 50, .slower = 1});
    compare_network("skipgram",
                    (facts){.in = {1, {7}}, .ids = 7, .vocabulary = 60, .classes = 6, .slower = 1});
    compare_network(
        "wide_deep",
        (facts){.in = {1, {39}}, .ids = 26, .vocabulary = 200, .classes = 2, .slower = 1});
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
    descend(&at, ps_optim_find("sgd"), &(ps_params){{0.05}}, 1, NULL);
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
    compare_with_pytorch(
        "mixed", specs, COUNT, "softmax_cross_entropy",
        &(facts){.in = {.rank = 3, .dim = {3, 15, 13}}, .classes = 10, .slower = 1});
}

/* Trained values of the network on images of 3 x 32 x 32, 10 classes; 0: it cannot be. */
static size_t trained_of(const char *name, double depth, ps_layer_spec *specs, size_t *count)
{
    const ps_network *network = ps_network_find(name);
    ps_params params = ps_params_default(network->params);
    const ps_network_facts given = {.features = 3072, .classes = 10, .outputs = 10};
    size_t trained = 0;
    ps_model *model;
    ps_status st;

    if (depth > 0) {
        params.v[0] = depth;
    }
    st = ps_network_specs(network, &given, &params, specs, count);
    if (!ps_is_ok(&st)) {
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        return 0;
    }
    st = ps_model_create(specs, *count, image.in, ps_loss_find("softmax_cross_entropy"), 1, &model);
    assert_true(ps_is_ok(&st));
    for (size_t v = 0; v < ps_model_variable_count(model); v++) {
        trained += ps_model_variable(model, v)->is_state ? 0 : ps_model_variable(model, v)->size;
    }
    ps_model_destroy(model);
    return trained;
}

static void resnet_is_the_one_of_its_depth(void **state)
{
    static const struct {
        double depth;
        const char *name; /* (optional) */
        size_t trained;
    } those[] = {
        {0, "resnet14", 195738},
        {14, "resnet14", 195738},
        {18, "resnet18", 11173962},
        {20, "resnet20", 269722},
        {32, NULL, 464154},
        {44, NULL, 658586},
        {56, NULL, 853018}, /* 0.46, 0.66 and 0.85 million in He et al. 2016 */
        {16, NULL, 0},
        {21, NULL, 0},
    };
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    ps_layer_spec *named = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *named);

    (void)state;
    for (size_t i = 0; i < sizeof those / sizeof those[0]; i++) {
        size_t count, named_count;

        assert_int_equal(trained_of("resnet", those[i].depth, specs, &count), those[i].trained);
        if (those[i].name != NULL) {
            (void)trained_of(those[i].name, 0, named, &named_count);
            assert_int_equal(count, named_count);
            assert_memory_equal(specs, named, count * sizeof *specs);
        }
    }
    free(specs);
    free(named);
}

/* With a golden file, or a test of its own. */
static void has_golden(const ps_network *network, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_network_find(network->name), network);
    assert_true(strlen(network->summary) > 0);
    if (strcmp(network->name, "resnet") != 0 && strcmp(network->name, "alexnet227") != 0) {
        assert_int_equal(golden_read(network->name, "parameters").n, 1);
    }
}

static void count_rule(const ps_optim *optim, void *arg)
{
    size_t i = 0;

    while (i < sizeof rules / sizeof rules[0] && strcmp(rules[i].optimizer, optim->name) != 0) {
        i++;
    }
    assert_true(i < sizeof rules / sizeof rules[0]);
    (*(size_t *)arg)++;
}

static void every_network_is_compared(void **state)
{
    size_t count = 0;

    (void)state;
    ps_network_each(has_golden, &count);
    assert_int_equal(count, 11);
    count = 0;
    ps_optim_each(count_rule, &count);
    assert_int_equal(count, sizeof rules / sizeof rules[0]);
    assert_null(ps_network_find("vgg"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_is_compared),
        cmocka_unit_test(linear_is_that_of_pytorch),
        cmocka_unit_test(cnn_is_that_of_pytorch),
        cmocka_unit_test(alexnet_is_that_of_pytorch),
        cmocka_unit_test(the_large_alexnet_steps),
        cmocka_unit_test(resnet_is_the_one_of_its_depth),
        cmocka_unit_test(residual_networks_are_those_of_pytorch),
        cmocka_unit_test(networks_over_ids_are_those_of_pytorch),
        cmocka_unit_test(a_mixed_network_with_running_statistics_is_that_of_pytorch),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
