/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph.c - layers that read the outputs of any earlier ones: gradients that meet,
 * hooks, and lists that are no graph.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/model.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20261120;

enum { IN = 6, CLASSES = 3, BATCH = 4, LAYERS_MAX = 32, GRAPHS = 200, EVENTS_MAX = 64 };

typedef struct graph {
    ps_layer_spec specs[LAYERS_MAX];
    uint32_t width[LAYERS_MAX + 1]; /* of what number i is: 0 the input, i the output of i - 1 */
    bool is_read[LAYERS_MAX + 1];
    size_t count;
} graph;

/* A layer over so many inputs, numbered as in ps_layer_spec; none: the one before. */
static ps_layer_spec *put(graph *g, const char *kind, size_t count, const uint32_t *inputs)
{
    ps_layer_spec *spec = &g->specs[g->count];

    assert_true(g->count < LAYERS_MAX);
    *spec = (ps_layer_spec){.layer = ps_layer_find(kind), .input_count = (uint32_t)count};
    assert_non_null(spec->layer);
    spec->params = ps_params_default(spec->layer->params);
    snprintf(spec->name, sizeof spec->name, "%s%zu", kind, g->count);
    for (size_t k = 0; k < count; k++) {
        spec->inputs[k] = inputs[k];
        g->is_read[inputs[k]] = true;
    }
    g->count++;
    g->width[g->count] = g->width[count > 0 ? inputs[0] : g->count - 1];
    g->is_read[g->count - 1] |= count == 0;
    return spec;
}

static void put_dense(graph *g, uint32_t units, size_t count, const uint32_t *inputs)
{
    put(g, "dense", count, inputs)->params.v[0] = units;
    g->width[g->count] = units;
}

/* Draws for the making of a graph. */
typedef struct dice {
    uint64_t key, next;
} dice;

static uint32_t roll(dice *d, size_t below)
{
    return (uint32_t)ps_draw_below(d->key, d->next++, below);
}

/* Inputs of the same width as the first, the first among them again perhaps. */
static size_t pick_alike(const graph *g, dice *d, uint32_t *inputs)
{
    size_t count = 1;

    inputs[0] = roll(d, g->count + 1);
    for (size_t tries = 0; tries < 12 && count < 4; tries++) {
        uint32_t other = roll(d, g->count + 1);

        if (g->width[other] == g->width[inputs[0]]) {
            inputs[count++] = other;
        }
    }
    return count;
}

static void put_any(graph *g, dice *d)
{
    uint32_t inputs[PS_LAYER_INPUTS_MAX];
    size_t count = pick_alike(g, d, inputs);
    uint32_t width = g->width[inputs[0]];
    ps_layer_spec *spec;

    switch (roll(d, 6)) {
    case 0:
        put_dense(g, 2 + roll(d, 4), 1, inputs);
        break;
    case 1:
        put(g, "tanh", 1, inputs);
        break;
    case 2:
        put(g, "linear", 1, inputs); /* a view */
        break;
    case 3:
        if (count >= 2) {
            put(g, "add", count, inputs);
            put(g, "tanh", 0, NULL); /* else sums of sums grow without bounds */
        }
        break;
    case 4:
        for (size_t k = 1; k < 3; k++) {
            inputs[k] = roll(d, g->count + 1);
            width += g->width[inputs[k]];
        }
        if (width <= 24) {
            put(g, "concat", 3, inputs);
            g->width[g->count] = width;
        }
        break;
    default:
        if (width >= 2) {
            uint32_t first = roll(d, width - 1);

            spec = put(g, "slice", 1, inputs);
            spec->params.v[0] = first;
            spec->params.v[1] = width - 1 - first;
            g->width[g->count] = width - 1 - first;
        }
    }
}

/* Layers over layers at random; what nobody read in the end goes into the last ones. */
static graph draw_graph(uint64_t number)
{
    graph g = {.width = {IN}};
    dice d = {.key = ps_draw_key(seed, PS_DRAW_TEST, number, 0, 0)};
    uint32_t left[PS_LAYER_INPUTS_MAX];
    size_t count = 0;

    put_dense(&g, 3, 1, &(uint32_t){0});
    for (size_t i = 0; i < 13; i++) {
        put_any(&g, &d);
    }
    for (uint32_t i = 1; i <= g.count; i++) {
        if (!g.is_read[i]) {
            assert_true(count < PS_LAYER_INPUTS_MAX);
            left[count++] = i;
        }
    }
    if (count > 1) {
        put(&g, "concat", count, left);
    }
    put_dense(&g, CLASSES, count == 1 ? 1 : 0, left);
    return g;
}

typedef struct world {
    ps_model *model;
    size_t count; /* parameters */
    float *w, *g, x[BATCH * IN], classes[BATCH];
    int events[EVENTS_MAX];
    size_t event_count;
} world;

static void world_init(world *at, const graph *g)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 1, 0);
    ps_status st = ps_model_create(g->specs, g->count, (ps_shape){.rank = 1, .dim = {IN}},
                                   ps_loss_find("softmax_cross_entropy"), BATCH, &at->model);

    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    at->count = ps_model_param_count(at->model);
    at->w = ps_xcalloc(at->count, sizeof *at->w);
    at->g = ps_xcalloc(at->count, sizeof *at->g);
    at->event_count = 0;
    for (size_t i = 0; i < BATCH * IN; i++) {
        at->x[i] = (float)(2.0 * ps_draw_unit(key, i) - 1.0);
    }
    for (size_t i = 0; i < BATCH; i++) {
        at->classes[i] = (float)(i % CLASSES);
    }
    ps_model_init(at->model, seed, at->w);
}

static void world_fini(world *at)
{
    ps_model_destroy(at->model);
    free(at->w);
    free(at->g);
}

static ps_score train(world *at, bool accumulate, const ps_model_hooks *hooks)
{
    ps_score score = {0};

    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), BATCH, 0.5f,
                   accumulate, at->g, hooks, &score);
    return score;
}

static double loss_at(world *at, float *value, float w)
{
    float held = *value;
    ps_score score = {0};

    *value = w;
    ps_model_eval(at->model, at->w, at->x, ps_targets_classes(at->classes), BATCH, &score);
    *value = held;
    return 0.5 * score.loss_sum;
}

static void compare_with_differences(world *at, uint64_t number)
{
    const float h = 0x1p-9f;
    double greatest = 1;

    for (size_t i = 0; i < at->count; i++) {
        greatest = fmax(greatest, fabs((double)at->g[i]));
    }
    for (size_t i = 0; i < at->count; i++) {
        float w = at->w[i];
        double near = loss_at(at, &at->w[i], w + h) - loss_at(at, &at->w[i], w - h);
        double far = loss_at(at, &at->w[i], w + 2 * h) - loss_at(at, &at->w[i], w - 2 * h);
        double want = (8 * near - far) / (12 * (double)h);
        char what[32];

        snprintf(what, sizeof what, "graph %llu", (unsigned long long)number);
        /* Sums of sums bend sharply; a path left out or met twice is far beyond that. */
        assert_true(is_close((double)at->g[i], want, 1e-2 * greatest, what, i));
    }
}

static void gradients_of_any_graph_agree_with_finite_differences(void **state)
{
    size_t adds = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t number = 0; number < GRAPHS; number++) {
        graph g = draw_graph(number);
        world at;

        world_init(&at, &g);
        train(&at, false, NULL);
        compare_with_differences(&at, number);
        world_fini(&at);
        for (size_t i = 0; i < g.count; i++) {
            adds += strcmp(g.specs[i].layer->kind, "add") == 0;
        }
    }
    assert_true(adds > GRAPHS);
}

static void training_a_graph_twice_gives_the_same_bits(void **state)
{
    graph g = draw_graph(3);
    float *first;
    ps_score a, b;
    world at;

    (void)state;
    world_init(&at, &g);
    first = ps_xcalloc(at.count, sizeof *first);
    a = train(&at, false, NULL);
    memcpy(first, at.g, at.count * sizeof *first);
    memset(at.g, 0xff, at.count * sizeof *first); /* NaN: must be overwritten */
    b = train(&at, false, NULL);
    assert_memory_equal(first, at.g, at.count * sizeof *first);
    assert_memory_equal(&a, &b, sizeof a);
    train(&at, true, NULL);
    for (size_t i = 0; i < at.count; i++) {
        assert_true(is_close((double)at.g[i], 2 * (double)first[i], 1e-6, "twice", i));
    }
    free(first);
    world_fini(&at);
}

/* Weights are there from need to ready alone, and gradients are final at ready. */
typedef struct window {
    world *at;
    float *weights, *final;
} window;

static void range_of(const world *at, uint32_t first, uint32_t count, size_t *from, size_t *n)
{
    const ps_variable *last = ps_model_variable(at->model, first + count - 1);

    *from = ps_model_variable(at->model, first)->at;
    *n = last->at + last->size - *from;
}

static void need(void *arg, uint32_t first, uint32_t count)
{
    window *of = arg;
    size_t from, n;

    range_of(of->at, first, count, &from, &n);
    memcpy(of->at->w + from, of->weights + from, n * sizeof(float));
    of->at->events[of->at->event_count++] = (int)first;
}

static void ready(void *arg, uint32_t first, uint32_t count)
{
    window *of = arg;
    size_t from, n;

    range_of(of->at, first, count, &from, &n);
    memcpy(of->final + from, of->at->g + from, n * sizeof(float));
    memset(of->at->w + from, 0xff, n * sizeof(float));
    of->at->events[of->at->event_count++] = -1 - (int)first;
}

static void each_layer_of_a_graph_is_needed_and_ready_once_in_order(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 20; number++) {
        graph g = draw_graph(number);
        world at;
        window of = {.at = &at};
        ps_model_hooks hooks = {.need = need, .ready = ready, .arg = &of};
        size_t layers;

        world_init(&at, &g);
        layers = ps_model_variable_count(at.model) / 2; /* all are dense */
        of.weights = ps_xcalloc(at.count, sizeof(float));
        of.final = ps_xcalloc(at.count, sizeof(float));
        memcpy(of.weights, at.w, at.count * sizeof(float));
        memset(at.w, 0xff, at.count * sizeof(float));
        train(&at, false, &hooks);
        assert_int_equal(at.event_count, 2 * layers);
        for (size_t i = 0; i < layers; i++) {
            assert_int_equal(at.events[i], 2 * i);
            assert_int_equal(at.events[2 * layers - 1 - i], -1 - 2 * (int)i);
        }
        assert_memory_equal(of.final, at.g, at.count * sizeof(float));
        for (size_t i = 0; i < at.count; i++) {
            assert_true(isfinite(at.g[i]));
        }
        free(of.weights);
        free(of.final);
        world_fini(&at);
    }
}

static void a_residual_needs_no_more_gradients_than_a_chain(void **state)
{
    enum { WIDTH = 1024 };
    size_t memory[3], row = BATCH * WIDTH * sizeof(float);

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        graph g = {.width = {IN}};
        ps_model *model = NULL;
        ps_status st;

        put_dense(&g, WIDTH, 0, NULL);
        put(&g, "tanh", 0, NULL);
        put(&g, "tanh", 0, NULL);
        if (k == 1) {
            put(&g, "tanh", 0, NULL);
        } else if (k == 2) {
            put(&g, "add", 2, (uint32_t[]){2, 3});
        }
        put_dense(&g, CLASSES, 0, NULL);
        st = ps_model_create(g.specs, g.count, (ps_shape){.rank = 1, .dim = {IN}},
                             ps_loss_find("softmax_cross_entropy"), BATCH, &model);
        assert_true(ps_is_ok(&st));
        memory[k] = ps_model_memory(model);
        ps_model_destroy(model);
    }
    /* Three outputs and two gradients, and then an output more; what it is beside that is
     * less than half a row. */
    assert_true(memory[0] >= 5 * row && memory[0] < 5 * row + 65536);
    for (size_t k = 1; k < 3; k++) {
        assert_true(memory[k] - memory[0] >= row && memory[k] - memory[0] < row + row / 2);
    }
}

static void refuse(const graph *g, const char *text)
{
    ps_model *model = NULL;
    ps_status st = ps_model_create(g->specs, g->count, (ps_shape){.rank = 1, .dim = {IN}},
                                   ps_loss_find("softmax_cross_entropy"), BATCH, &model);

    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    if (strstr(st.text, text) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", st.text, text);
    }
    assert_null(model);
}

static void a_list_that_is_no_graph_is_refused(void **state)
{
    static const char *const kinds[] = {"dense", "dense"};
    graph g;

    (void)state;
    for (size_t k = 0; k < 8; k++) {
        g = (graph){.width = {IN}};
        for (size_t i = 0; i < 2; i++) {
            put_dense(&g, CLASSES, 0, NULL);
            assert_string_equal(g.specs[i].layer->kind, kinds[i]);
        }
        switch (k) {
        case 0:
            g.specs[1].input_count = 1;
            g.specs[1].inputs[0] = 0;
            refuse(&g, "layer 0 (dense0): no layer behind it reads its output");
            break;
        case 1:
            g.specs[0].input_count = 1;
            g.specs[0].inputs[0] = 1;
            refuse(&g, "layer 0 (dense0): input 0 is layer 0, which is not before it");
            break;
        case 2:
            g.specs[1].input_count = 2;
            g.specs[1].inputs[0] = 1;
            refuse(&g, "layer 1 (dense1): dense takes at most 1 inputs, not 2");
            break;
        case 3:
            put(&g, "add", 1, (uint32_t[]){2});
            refuse(&g, "layer 2 (add2): add: 1 inputs, 2 to 16 are allowed");
            break;
        case 4:
            put(&g, "add", 2, (uint32_t[]){2, 0});
            refuse(&g, "add: input 1 has another shape than input 0: 6 values, not 3");
            break;
        case 5:
            put(&g, "concat", 0, NULL);
            refuse(&g, "concat: 1 inputs, 2 to 16 are allowed");
            break;
        case 6:
            put(&g, "slice", 0, NULL)->params.v[0] = 3;
            refuse(&g, "slice: 0 from 3 on, and there are 3");
            break;
        default:
            put(&g, "slice", 0, NULL)->params.v[0] = 1;
            g.specs[2].params.v[1] = 3;
            refuse(&g, "slice: 3 from 1 on, and there are 3");
        }
    }
}

/* Images: channels are what is put side by side and cut out. */
static void images_are_put_side_by_side_by_channels(void **state)
{
    const ps_layer *concat = ps_layer_find("concat"), *slice = ps_layer_find("slice");
    ps_layer_plan plan = {.batch = 2,
                          .input_count = 2,
                          .in = {.rank = 3, .dim = {2, 1, 2}},
                          .ins = {{.rank = 3, .dim = {2, 1, 2}}, {.rank = 3, .dim = {1, 1, 2}}}};
    ps_layer_plan cut = {.batch = 2, .params = {{1, 2}}};
    const float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[4] = {9, 10, 11, 12};
    const float want[12] = {1, 2, 3, 4, 9, 10, 5, 6, 7, 8, 11, 12};
    const float want_cut[8] = {3, 4, 9, 10, 7, 8, 11, 12};
    float y[12], part[8];
    ps_pass pass = {0};
    ps_status st = concat->plan(&plan);

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_int_equal(plan.out.dim[0], 3);
    concat->forward_many(&plan, (const float *const[]){a, b}, y, 2);
    assert_memory_equal(y, want, sizeof want);
    cut.in = plan.out;
    st = slice->plan(&cut);
    assert_true(ps_is_ok(&st));
    assert_int_equal(cut.out.rank, 3);
    assert_int_equal(cut.out.dim[0], 2);
    slice->forward(&cut, &pass, NULL, y, part, NULL, 2);
    assert_memory_equal(part, want_cut, sizeof want_cut);
    plan.ins[1].dim[2] = 1;
    st = concat->plan(&plan);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_any_graph_agree_with_finite_differences),
        cmocka_unit_test(training_a_graph_twice_gives_the_same_bits),
        cmocka_unit_test(each_layer_of_a_graph_is_needed_and_ready_once_in_order),
        cmocka_unit_test(a_residual_needs_no_more_gradients_than_a_chain),
        cmocka_unit_test(a_list_that_is_no_graph_is_refused),
        cmocka_unit_test(images_are_put_side_by_side_by_channels),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
