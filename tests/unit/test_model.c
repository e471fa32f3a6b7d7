/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c - layers in a row: places, gradients, and who is asked and told when. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/model.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20240605;

enum { IN = 13, HIDDEN = 9, CLASSES = 5, BATCH = 7, EVENTS_MAX = 32 };

static ps_layer_spec spec_of(const char *kind, unsigned units, const char *name)
{
    ps_layer_spec spec = {.layer = ps_layer_find(kind)};

    spec.params = ps_params_default(spec.layer->params);
    if (units > 0) {
        spec.params.v[0] = units;
    }
    snprintf(spec.name, sizeof spec.name, "%s", name);
    return spec;
}

static ps_status create(const ps_layer_spec *specs, size_t count, ps_shape in, size_t batch,
                        ps_model **out)
{
    return ps_model_create(specs, count, in, ps_loss_find("softmax_cross_entropy"), batch, out);
}

typedef struct world {
    ps_model *model;
    size_t count; /* parameters */
    float *w, *g, *x;
    float classes[BATCH];
    /* what the hooks saw: variables needed count up from 0, ready down from -1 */
    int events[EVENTS_MAX];
    size_t event_count;
    const float *source;   /* weights that `need` copies in, or NULL */
    float *ready_gradient; /* what `ready` saw, or NULL */
} world;

/* sigmoid (no variables), dense, tanh, dense, tanh, dense: smooth, for finite differences. */
static void world_init(world *at)
{
    ps_layer_spec specs[6] = {spec_of("sigmoid", 0, "squash"), spec_of("dense", HIDDEN, "dense0"),
                              spec_of("tanh", 0, "tanh0"),     spec_of("dense", 8, "dense1"),
                              spec_of("tanh", 0, "tanh1"),     spec_of("dense", CLASSES, "dense2")};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);
    ps_status st;

    *at = (world){0};
    st = create(specs, 6, (ps_shape){.rank = 1, .dim = {IN}}, BATCH, &at->model);
    assert_true(ps_is_ok(&st));
    at->count = ps_model_param_count(at->model);
    at->w = ps_xcalloc(at->count, sizeof *at->w);
    at->g = ps_xcalloc(at->count, sizeof *at->g);
    at->x = ps_xcalloc(BATCH * IN, sizeof *at->x);
    for (size_t i = 0; i < BATCH * IN; i++) {
        at->x[i] = (float)(4.0 * ps_draw_unit(key, i) - 2.0);
    }
    for (size_t i = 0; i < BATCH; i++) {
        at->classes[i] = (float)ps_draw_below(key, i, CLASSES);
    }
    ps_model_init(at->model, seed, at->w);
}

static void world_fini(world *at)
{
    ps_model_destroy(at->model);
    free(at->w);
    free(at->g);
    free(at->x);
    free(at->ready_gradient);
}

static ps_score train(world *at, size_t n, bool accumulate, const ps_model_hooks *hooks)
{
    ps_score score = {0};

    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), n, 0.5f, accumulate,
                   at->g, hooks, &score);
    return score;
}

static void variables_lie_side_by_side_in_layer_order(void **state)
{
    static const char *const names[6] = {"dense0.weight", "dense0.bias",   "dense1.weight",
                                         "dense1.bias",   "dense2.weight", "dense2.bias"};
    static const size_t sizes[6] = {HIDDEN * IN, HIDDEN, 8 * HIDDEN, 8, CLASSES * 8, CLASSES};
    static const uint32_t layers[6] = {1, 1, 3, 3, 5, 5};
    size_t next = 0;
    world at;

    (void)state;
    world_init(&at);
    assert_int_equal(ps_model_variable_count(at.model), 6);
    for (size_t v = 0; v < 6; v++) {
        const ps_variable *var = ps_model_variable(at.model, v);

        assert_string_equal(var->name, names[v]);
        assert_int_equal(var->size, sizes[v]);
        assert_int_equal(var->size, ps_shape_size(&var->shape));
        assert_false(var->is_state);
        assert_int_equal(var->at, next);
        assert_int_equal(var->layer, layers[v]);
        next += var->size;
    }
    assert_int_equal(ps_model_param_count(at.model), next);
    assert_int_equal(ps_model_output_width(at.model), CLASSES);
    /* Outputs, and two gradients as wide as the widest. */
    assert_true(ps_model_memory(at.model) >=
                BATCH * (3 * IN + 2 * HIDDEN + 16 + CLASSES) * sizeof(float));
    assert_true(ps_model_memory(at.model) < 32768);
    world_fini(&at);
}

static void initial_weights_are_the_draws_that_the_header_says(void **state)
{
    world at;
    float *again;

    (void)state;
    world_init(&at);
    again = ps_xcalloc(at.count, sizeof *again);
    for (size_t v = 0; v < ps_model_variable_count(at.model); v++) {
        const ps_variable *var = ps_model_variable(at.model, v);
        uint64_t key = ps_draw_key(seed, PS_DRAW_INIT, v, 0, 0);
        double limit = (double)var->init.scale, squares = 0;

        for (size_t i = 0; i < var->size; i++) {
            double want = (2.0 * ps_draw_unit(key, i) - 1.0) * limit;

            assert_true(at.w[var->at + i] == (float)want);
            squares += want * want;
        }
        if (v % 2 == 0) { /* a weight: variance limit^2 / 3 */
            assert_true(limit > 0.0 && squares > 0.5 * limit * limit / 3 * (double)var->size);
        }
    }
    ps_model_init(at.model, seed, again);
    assert_memory_equal(again, at.w, at.count * sizeof *again);
    ps_model_init(at.model, seed + 1, again);
    assert_memory_not_equal(again, at.w, at.count * sizeof *again);
    free(again);
    world_fini(&at);
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

static void the_gradient_agrees_with_finite_differences(void **state)
{
    const float h = 0x1p-7f;
    world at;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    world_init(&at);
    train(&at, BATCH, false, NULL);
    for (size_t i = 0; i < at.count; i++) {
        double up = loss_at(&at, &at.w[i], at.w[i] + h), down = loss_at(&at, &at.w[i], at.w[i] - h);
        double want = (up - down) / (2 * (double)h);

        assert_true(is_close((double)at.g[i], want, 2e-4 * (1 + fabs(want)), "gradient", i));
    }
    world_fini(&at);
}

static void training_twice_gives_the_same_bits(void **state)
{
    world at;
    float *first;
    ps_score a, b;

    (void)state;
    world_init(&at);
    first = ps_xcalloc(at.count, sizeof *first);
    a = train(&at, BATCH, false, NULL);
    memcpy(first, at.g, at.count * sizeof *first);
    memset(at.g, 0xff, at.count * sizeof *first); /* NaN: must be overwritten */
    b = train(&at, BATCH, false, NULL);
    assert_memory_equal(first, at.g, at.count * sizeof *first);
    assert_memory_equal(&a, &b, sizeof a);
    free(first);
    world_fini(&at);
}

static void accumulating_adds_a_batch_to_another(void **state)
{
    world at;
    float *once;

    (void)state;
    world_init(&at);
    once = ps_xcalloc(at.count, sizeof *once);
    train(&at, BATCH, false, NULL);
    memcpy(once, at.g, at.count * sizeof *once);
    train(&at, BATCH, true, NULL);
    for (size_t i = 0; i < at.count; i++) {
        assert_true(is_close((double)at.g[i], 2 * (double)once[i], 1e-6, "gradient", i));
    }
    free(once);
    world_fini(&at);
}

static void part_of_a_batch_may_be_trained_and_none_gives_no_gradient(void **state)
{
    world at;
    ps_score score;

    (void)state;
    world_init(&at);
    score = train(&at, 1, false, NULL);
    assert_int_equal(score.samples, 1);
    memset(at.g, 0xff, at.count * sizeof *at.g);
    score = train(&at, 0, false, NULL);
    assert_int_equal(score.samples, 0);
    for (size_t i = 0; i < at.count; i++) {
        assert_true(at.g[i] == 0.0f);
    }
    world_fini(&at);
}

static void predicting_gives_the_logits_that_evaluating_scores(void **state)
{
    world at;
    ps_score of_eval = {0}, of_logits = {0}, of_training;
    const float *logits;

    (void)state;
    world_init(&at);
    of_training = train(&at, BATCH, false, NULL);
    ps_model_eval(at.model, at.w, at.x, ps_targets_classes(at.classes), BATCH, &of_eval);
    logits = ps_model_predict(at.model, at.w, at.x, BATCH);
    ps_loss_find("softmax_cross_entropy")
        ->eval(logits, ps_targets_classes(at.classes), BATCH, CLASSES, 1.0f, NULL, &of_logits);
    assert_memory_equal(&of_eval, &of_logits, sizeof of_eval);
    assert_memory_equal(&of_eval, &of_training, sizeof of_eval);
    assert_int_equal(of_eval.samples, BATCH);
    world_fini(&at);
}

/* Range of a layer's variables in the block. */
static void range_of(const world *at, uint32_t first, uint32_t count, size_t *from, size_t *n)
{
    const ps_variable *last = ps_model_variable(at->model, first + count - 1);

    *from = ps_model_variable(at->model, first)->at;
    *n = last->at + last->size - *from;
}

static void need(void *arg, uint32_t first, uint32_t count)
{
    world *at = arg;
    size_t from, n;

    assert_true(at->event_count < EVENTS_MAX);
    at->events[at->event_count++] = (int)first;
    assert_int_equal(count, 2);
    if (at->source != NULL) {
        range_of(at, first, count, &from, &n);
        memcpy(at->w + from, at->source + from, n * sizeof *at->w);
    }
}

static void ready(void *arg, uint32_t first, uint32_t count)
{
    world *at = arg;
    size_t from, n;

    assert_true(at->event_count < EVENTS_MAX);
    at->events[at->event_count++] = -1 - (int)first;
    assert_int_equal(count, 2);
    if (at->ready_gradient != NULL) {
        range_of(at, first, count, &from, &n);
        memcpy(at->ready_gradient + from, at->g + from, n * sizeof *at->g);
        memset(at->w + from, 0xff, n * sizeof *at->w); /* gone: nobody may read them now */
    }
}

static void hooks_are_called_upwards_and_back(void **state)
{
    static const int want[6] = {0, 2, 4, -5, -3, -1};
    ps_model_hooks hooks = {.need = need, .ready = ready};
    world at;

    (void)state;
    world_init(&at);
    hooks.arg = &at;
    train(&at, BATCH, false, &hooks);
    assert_int_equal(at.event_count, 6);
    assert_memory_equal(at.events, want, sizeof want);
    hooks.need = NULL;
    train(&at, BATCH, false, &hooks);
    assert_int_equal(at.event_count, 9);
    hooks = (ps_model_hooks){.need = need, .arg = &at};
    train(&at, BATCH, false, &hooks);
    assert_int_equal(at.event_count, 12);
    world_fini(&at);
}

static void weights_are_read_between_need_and_ready_only_and_gradients_are_final_then(void **state)
{
    ps_model_hooks hooks = {.need = need, .ready = ready};
    world at;
    float *weights, *gradient;

    (void)state;
    world_init(&at);
    hooks.arg = &at;
    weights = ps_xcalloc(at.count, sizeof *weights);
    gradient = ps_xcalloc(at.count, sizeof *gradient);
    at.ready_gradient = ps_xcalloc(at.count, sizeof *gradient);
    train(&at, BATCH, false, NULL);
    memcpy(weights, at.w, at.count * sizeof *weights);
    memcpy(gradient, at.g, at.count * sizeof *gradient);
    memset(at.w, 0xff, at.count * sizeof *at.w); /* NaN until needed, and again when ready */
    at.source = weights;
    train(&at, BATCH, false, &hooks);
    assert_memory_equal(at.g, gradient, at.count * sizeof *gradient);
    assert_memory_equal(at.ready_gradient, gradient, at.count * sizeof *gradient);
    free(weights);
    free(gradient);
    world_fini(&at);
}

static void a_model_without_variables_has_nothing_to_train(void **state)
{
    ps_layer_spec specs[2] = {spec_of("tanh", 0, "a"), spec_of("relu", 0, "b")};
    ps_model *model = NULL;
    ps_status st = create(specs, 2, (ps_shape){.rank = 1, .dim = {CLASSES}}, 2, &model);
    float x[2 * CLASSES] = {1, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    float classes[2] = {0, 2};
    ps_score score = {0};

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_model_param_count(model), 0);
    ps_model_init(model, 1, NULL);
    ps_model_train(model, NULL, x, ps_targets_classes(classes), 2, 1.0f, false, NULL, NULL, &score);
    assert_int_equal(score.samples, 2);
    assert_int_equal(score.correct, 1);
    ps_model_destroy(model);
    ps_model_destroy(NULL);
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    ps_layer_spec specs[2] = {spec_of("dense", 1 << 20, "wide"), spec_of("dense", 2000, "deep")};
    ps_layer_spec waist[3] = {specs[0], spec_of("dense", 600, "waist"), specs[0]};
    ps_layer_spec units = spec_of("dense", 0, "none");
    ps_shape one = {.rank = 1, .dim = {1}};
    ps_model *model = NULL;
    ps_status st = create(specs, 2, one, 1, &model);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "layer 1 (deep)"));
    st = create(waist, 3, one, 1, &model); /* 630 million weights, and as many again */
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "layer 2 (wide)"));
    st = create(specs, 0, one, 1, &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = create(specs, PS_MODEL_LAYERS_MAX + 1, one, 1, &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = create(specs, 1, one, 0, &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = create(specs, 1, one, 1 << 11, &model); /* 2^31 outputs */
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = create(specs, 1, (ps_shape){.rank = 2, .dim = {3, 0}}, 1, &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = create(specs, 1, (ps_shape){.rank = 0}, 1, &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = create(specs, 1, (ps_shape){.rank = 4, .dim = {1u << 31, 1u << 31, 1u << 31, 4}}, 1,
                &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    units.params.v[0] = 0;
    st = create(&units, 1, one, 1, &model);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_null(model);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_lie_side_by_side_in_layer_order),
        cmocka_unit_test(initial_weights_are_the_draws_that_the_header_says),
        cmocka_unit_test(the_gradient_agrees_with_finite_differences),
        cmocka_unit_test(training_twice_gives_the_same_bits),
        cmocka_unit_test(accumulating_adds_a_batch_to_another),
        cmocka_unit_test(part_of_a_batch_may_be_trained_and_none_gives_no_gradient),
        cmocka_unit_test(predicting_gives_the_logits_that_evaluating_scores),
        cmocka_unit_test(hooks_are_called_upwards_and_back),
        cmocka_unit_test(weights_are_read_between_need_and_ready_only_and_gradients_are_final_then),
        cmocka_unit_test(a_model_without_variables_has_nothing_to_train),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
