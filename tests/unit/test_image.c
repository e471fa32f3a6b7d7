/* SPDX-License-Identifier: Apache-2.0 */
/* test_image.c - layers over images: every stride and padding, what is state, what is drawn. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/layer.h"
#include "common/nn/model.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/layer_rig.h"

#include <stdlib.h>
#include <string.h>

static ps_params params_of(const ps_layer *layer, const char *const *names, const double *values)
{
    ps_params params = ps_params_default(layer->params);

    for (size_t i = 0; names[i] != NULL; i++) {
        int at = ps_param_find(layer->params, names[i]);

        assert_true(at >= 0);
        params.v[at] = values[i];
    }
    return params;
}

static const char *const window_names[] = {"kernel", "stride", "padding", NULL};

typedef struct window_case {
    uint32_t n, batch;
    uint32_t chw[3];
    double values[3]; /* kernel, stride, padding */
} window_case;

static const window_case windows[] = {
    {1, 1, {1, 1, 1}, {1, 1, 0}},
    {2, 3, {2, 5, 7}, {3, 1, 1}},
    {3, 3, {1, 9, 8}, {3, 2, 0}},
    {2, 2, {3, 8, 8}, {5, 4, 2}},
    {2, 2, {2, 7, 6}, {2, 3, 1}},
    {1, 2, {2, 3, 4}, {4, 1, 2}},
    {5, 5, {1, 24, 23}, {3, 1, 0}},
    {2, 2, {1, 5, 5}, {2, 2, 0}},
    /* as large as their input, in groups of several samples or one */
    {3, 4, {2, 3, 8}, {3, 1, 1}},
    {2, 2, {3, 7, 9}, {5, 1, 2}},
    {13, 13, {1, 2, 8}, {3, 1, 1}},
    {12, 20, {2, 9, 8}, {3, 1, 1}},
    {3, 3, {1, 34, 33}, {3, 1, 1}},
    {5, 5, {3, 24, 17}, {7, 1, 3}},
};

enum { WINDOWS = sizeof windows / sizeof windows[0] };

static rig window_rig(const char *kind, const window_case *of, double filters, double bias)
{
    const ps_layer *layer = ps_layer_find(kind);
    ps_params params = params_of(layer, window_names, of->values);
    ps_shape in = {.rank = 3, .dim = {of->chw[0], of->chw[1], of->chw[2]}};

    if (filters > 0) {
        params.v[ps_param_find(layer->params, "filters")] = filters;
        params.v[ps_param_find(layer->params, "bias")] = bias;
    }
    return rig_of(layer, of->n, of->batch, in, &params, 1);
}

static void windows_of_every_stride_and_padding_agree_with_finite_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < WINDOWS; i++) {
        rig conv, plain, most, mean;

        if (windows[i].chw[1] > 20) {
            continue; /* for the twin: many values, one kind of window */
        }
        conv = window_rig("conv2d", &windows[i], 3, 1);
        plain = window_rig("conv2d", &windows[i], 2, 0);
        most = window_rig("maxpool2d", &windows[i], 0, 0);
        mean = window_rig("avgpool2d", &windows[i], 0, 0);
        assert_int_equal(plain.plan.var_count, 1);
        rig_check(&conv);
        rig_check(&plain);
        rig_check(&most);
        rig_check(&mean);
    }
}

/* Value (c, i, j) of the window at place (r, s) of sample b; 0 outside. */
static double window_value(const rig *at, const window_case *of, size_t b, size_t c, size_t row,
                           size_t column)
{
    size_t padding = (size_t)of->values[2], rows = of->chw[1], columns = of->chw[2];

    if (row < padding || column < padding || row - padding >= rows || column - padding >= columns) {
        return 0.0;
    }
    return (double)
        at->x.v[((b * of->chw[0] + c) * rows + row - padding) * columns + column - padding];
}

static void compare_conv(const rig *at, const window_case *of)
{
    size_t kernel = (size_t)of->values[0], stride = (size_t)of->values[1];
    size_t filters = at->plan.out.dim[0], rows = at->plan.out.dim[1], columns = at->plan.out.dim[2];

    for (size_t y = 0; y < at->y.n; y++) {
        size_t s = y % columns, r = y / columns % rows, f = y / columns / rows % filters;
        size_t b = y / columns / rows / filters;
        double want = (double)at->w[1].v[f];

        for (size_t k = 0; k < of->chw[0] * kernel * kernel; k++) {
            size_t j = k % kernel, i = k / kernel % kernel, c = k / kernel / kernel;

            want += (double)at->w[0].v[f * of->chw[0] * kernel * kernel + k] *
                    window_value(at, of, b, c, r * stride + i, s * stride + j);
        }
        assert_true(is_close((double)at->y.v[y], want, 1e-4, "y", y));
    }
}

static void conv2d_matches_a_naive_twin(void **state)
{
    (void)state;
    for (size_t i = 0; i < WINDOWS; i++) {
        rig at = window_rig("conv2d", &windows[i], 4, 1);

        rig_forward(&at);
        compare_conv(&at, &windows[i]);
        rig_drop(&at);
    }
}

static void what_no_window_fits_is_refused(void **state)
{
    static const char *const kinds[] = {"conv2d", "maxpool2d", "avgpool2d"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const ps_layer *layer = ps_layer_find(kinds[i]);
        ps_layer_plan plan = {.in = {.rank = 3, .dim = {1, 4, 2}}, .batch = 1};
        ps_status st;

        plan.params = params_of(layer, window_names, (const double[]){3, 1, 0});
        st = layer->plan(&plan);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(st.text, "4 x 2"));
        plan.in = (ps_shape){.rank = 1, .dim = {8}};
        st = layer->plan(&plan);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(st.text, kinds[i]));
        plan.in = (ps_shape){.rank = 3, .dim = {1 << 14, 1 << 8, 1 << 8}};
        plan.params = params_of(layer, window_names, (const double[]){255, 1, 0});
        plan.batch = 1 << 20;
        st = layer->plan(&plan);
        assert_true(strcmp(kinds[i], "avgpool2d") == 0 || st.code == PS_INVALID_ARGUMENT);
    }
}

static void the_first_of_equals_is_the_greatest_and_a_nan_is_greater(void **state)
{
    window_case of = {1, 1, {1, 2, 4}, {2, 2, 0}};
    rig at = window_rig("maxpool2d", &of, 0, 0);
    window_case wide = {1, 1, {1, 3, 3}, {3, 3, 0}};
    const float x[8] = {1, 1, 0, NAN, 1, 1, 5, 7}, y[9] = {1, 2, 3, 4, NAN, 5, 6, 7, 8};

    (void)state;
    memcpy(at.x.v, x, sizeof x);
    rig_forward(&at);
    rig_backward(&at, at.dx.v);
    assert_true(at.y.v[0] == 1.0f && isnan(at.y.v[1]));
    assert_true(at.dx.v[0] == at.dy.v[0] && at.dx.v[1] == 0.0f && at.dx.v[4] == 0.0f);
    assert_true(at.dx.v[3] == at.dy.v[1] && at.dx.v[7] == 0.0f);
    rig_drop(&at);
    at = window_rig("maxpool2d", &wide, 0, 0); /* and of windows that are not 2 x 2 */
    memcpy(at.x.v, y, sizeof y);
    rig_forward(&at);
    rig_backward(&at, at.dx.v);
    assert_true(isnan(at.y.v[0]) && at.dx.v[4] == at.dy.v[0] && at.dx.v[8] == 0.0f);
    rig_drop(&at);
}

static void batch_norm_s_running_statistics_move_towards_the_batch_s(void **state)
{
    const ps_layer *layer = ps_layer_find("batch_norm");
    ps_params params = ps_params_default(layer->params);
    rig at = rig_of(layer, 4, 4, (ps_shape){.rank = 3, .dim = {2, 3, 5}}, &params, 0);

    (void)state;
    at.pass.scale = 0.125f;
    rig_clear(&at);
    rig_forward(&at);
    rig_backward(&at, NULL);
    for (size_t c = 0; c < 2; c++) {
        double mean = 0, variance = 0;

        for (size_t i = 0; i < 60; i++) {
            mean += (double)at.x.v[i / 15 * 30 + c * 15 + i % 15] / 60;
        }
        for (size_t i = 0; i < 60; i++) {
            double d = (double)at.x.v[i / 15 * 30 + c * 15 + i % 15] - mean;

            variance += d * d / 59; /* without bias */
        }
        /* scale * n * momentum * (running - batch) */
        assert_true(is_close((double)at.dw[2].v[c], 0.125 * 4 * 0.1 * ((double)at.w[2].v[c] - mean),
                             1e-6, "mean", c));
        assert_true(is_close((double)at.dw[3].v[c],
                             0.125 * 4 * 0.1 * ((double)at.w[3].v[c] - variance), 1e-6, "variance",
                             c));
    }
    assert_true(at.plan.vars[2].is_state && at.plan.vars[3].is_state);
    assert_false(at.plan.vars[0].is_state || at.plan.vars[1].is_state);
    rig_drop(&at);
}

static void batch_norm_takes_the_running_statistics_when_not_in_training(void **state)
{
    const ps_layer *layer = ps_layer_find("batch_norm");
    ps_params params = ps_params_default(layer->params);
    rig at = rig_of(layer, 3, 3, (ps_shape){.rank = 1, .dim = {5}}, &params, 0);

    (void)state;
    at.pass.is_training = false;
    for (size_t c = 0; c < 5; c++) {
        at.w[3].v[c] = c == 4 ? -1e-9f : 0.5f; /* one was sent rounded */
    }
    rig_forward(&at);
    for (size_t i = 0; i < 15; i++) {
        double root = i % 5 == 4 ? sqrt(1e-5) : sqrt(0.5 + 1e-5);
        double want =
            ((double)at.x.v[i] - (double)at.w[2].v[i % 5]) / root * (double)at.w[0].v[i % 5] +
            (double)at.w[1].v[i % 5];

        assert_true(is_close((double)at.y.v[i], want, 1e-5 * (1 + fabs(want)), "y", i));
    }
    rig_drop(&at);
}

/* How many of y are zero where x is not, and that the others are scaled. */
static size_t count_dropped(const rig *at, double rate)
{
    size_t dropped = 0;

    for (size_t i = 0; i < at->y.n; i++) {
        double want = (double)at->x.v[i] / (1 - rate);

        dropped += at->y.v[i] == 0.0f;
        assert_true(at->y.v[i] == 0.0f ||
                    is_close((double)at->y.v[i], want, 1e-6 * fabs(want), "y", i));
    }
    return dropped;
}

static void dropout_leaves_out_its_share_by_the_key_alone(void **state)
{
    static const char *const kinds[] = {"dropout", "channel_dropout"};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        const ps_layer *layer = ps_layer_find(kinds[k]);
        ps_params params = {{0.25}};
        ps_shape in = {.rank = 3, .dim = {200, 2, 5}};
        rig at = rig_of(layer, 10, 10, in, &params, 0),
            again = rig_of(layer, 10, 10, in, &params, 1);
        size_t dropped;

        rig_forward(&at);
        rig_forward(&again);
        assert_memory_equal(at.y.v, again.y.v, at.y.n * sizeof(float));
        dropped = count_dropped(&at, 0.25);
        /* 20,000 draws, or 2,000 of 10 values: five standard deviations */
        assert_true(is_close((double)dropped, 5000, k == 0 ? 310 : 970, "dropped", k));
        for (size_t i = 0; k == 1 && i < at.y.n; i++) { /* a channel as a whole */
            assert_true((at.y.v[i] == 0.0f) == (at.y.v[i / 10 * 10] == 0.0f));
        }
        again.pass.key++;
        again.pass.key <<= 32;
        rig_forward(&again);
        assert_memory_not_equal(at.y.v, again.y.v, at.y.n * sizeof(float));
        again.pass.is_training = false;
        rig_forward(&again);
        assert_memory_equal(again.y.v, again.x.v, at.y.n * sizeof(float));
        rig_drop(&at);
        rig_drop(&again);
    }
}

static ps_layer_spec spec_of(const char *kind, unsigned first)
{
    ps_layer_spec spec = {.layer = ps_layer_find(kind)};

    assert_non_null(spec.layer);
    spec.params = ps_params_default(spec.layer->params);
    if (first > 0) {
        spec.params.v[0] = first;
    }
    snprintf(spec.name, sizeof spec.name, "%s", kind);
    return spec;
}

static void views_move_nothing_and_lead_gradients_through(void **state)
{
    enum { IN = 12, CLASSES = 3, N = 2, COUNT = (IN + 1) * CLASSES };
    ps_layer_spec plain[1] = {spec_of("dense", CLASSES)};
    ps_layer_spec viewed[5] = {spec_of("reshape", 3), spec_of("linear", 0), spec_of("flatten", 0),
                               spec_of("dense", CLASSES), spec_of("linear", 0)};
    ps_shape in = {.rank = 1, .dim = {IN}};
    ps_model *a = NULL, *b = NULL;
    float x[N * IN], w[COUNT], ga[COUNT], gb[COUNT];
    const float classes[N] = {0, 2};
    ps_score sa = {0}, sb = {0};
    ps_status st;

    (void)state;
    viewed[0].params.v[1] = 2;
    viewed[0].params.v[2] = 2;
    st = ps_model_create(plain, 1, in, ps_loss_find("mse"), N, &a);
    assert_true(ps_is_ok(&st));
    st = ps_model_create(viewed, 5, in, ps_loss_find("mse"), N, &b);
    assert_true(ps_is_ok(&st));
    for (size_t i = 0; i < N * IN; i++) {
        x[i] = (float)ps_draw_normal(rig_seed, i);
    }
    ps_model_init(a, 1, w);
    ps_model_train(a, w, x, ps_targets_classes(classes), N, 0.5f, false, ga, NULL, &sa);
    ps_model_train(b, w, x, ps_targets_classes(classes), N, 0.5f, false, gb, NULL, &sb);
    assert_memory_equal(ga, gb, sizeof ga);
    assert_memory_equal(&sa, &sb, sizeof sa);
    assert_memory_equal(ps_model_predict(a, w, x, N), ps_model_predict(b, w, x, N),
                        N * CLASSES * sizeof(float));
    ps_model_destroy(a);
    ps_model_destroy(b);
}

static void reshape_refuses_what_does_not_fill_its_shape(void **state)
{
    const ps_layer *reshape = ps_layer_find("reshape");
    ps_layer_plan plan = {.in = {.rank = 1, .dim = {12}}, .params = {{0, 5, 1}}};
    ps_status st = reshape->plan(&plan);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    plan.params = (ps_params){{2, 2, 2}};
    st = reshape->plan(&plan);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    plan.params = (ps_params){{0, 2, 2}};
    st = reshape->plan(&plan);
    assert_true(ps_is_ok(&st));
    assert_int_equal(plan.out.rank, 3);
    assert_int_equal(plan.out.dim[0], 3);
}

static void models_draw_by_their_key_in_training_and_not_else(void **state)
{
    enum { IN = 40, N = 3 };
    ps_layer_spec specs[2] = {spec_of("dropout", 0), spec_of("dense", 4)};
    ps_shape in = {.rank = 1, .dim = {IN}};
    ps_model *model = NULL;
    float x[N * IN], w[(IN + 1) * 4], first[(IN + 1) * 4], g[(IN + 1) * 4];
    const float classes[N] = {0, 1, 2};
    ps_score one = {0}, two = {0};
    ps_status st = ps_model_create(specs, 2, in, ps_loss_find("softmax_cross_entropy"), N, &model);

    (void)state;
    assert_true(ps_is_ok(&st));
    for (size_t i = 0; i < N * IN; i++) {
        x[i] = 1.0f;
    }
    ps_model_init(model, 1, w);
    ps_model_set_draws(model, 7);
    ps_model_train(model, w, x, ps_targets_classes(classes), N, 1.0f, false, first, NULL, &one);
    ps_model_train(model, w, x, ps_targets_classes(classes), N, 1.0f, false, g, NULL, &two);
    assert_memory_equal(first, g, sizeof g);
    ps_model_set_draws(model, 8);
    ps_model_train(model, w, x, ps_targets_classes(classes), N, 1.0f, false, g, NULL, &two);
    assert_memory_not_equal(first, g, sizeof g);
    one = two = (ps_score){0};
    ps_model_eval(model, w, x, ps_targets_classes(classes), N, &one);
    ps_model_set_draws(model, 9);
    ps_model_eval(model, w, x, ps_targets_classes(classes), N, &two);
    assert_memory_equal(&one, &two, sizeof one);
    ps_model_destroy(model);
}

static void initial_values_have_the_spread_of_their_rule(void **state)
{
    enum { N = 20000 };
    /* rule and the variance for fan-in 50 and fan-out 100; init_scale 0.5 */
    static const double rules[PS_INIT_RULES][2] = {
        {PS_INIT_RULE_GLOROT, 2.0 / 150},  {PS_INIT_RULE_HE, 2.0 / 50},
        {PS_INIT_RULE_PYTORCH, 1.0 / 150}, {PS_INIT_RULE_NORMAL, 0.25},
        {PS_INIT_RULE_CONSTANT, 0.25},     {PS_INIT_RULE_UNIFORM, 0.25 / 3}};
    static float values[N];

    (void)state;
    for (size_t r = 0; r < PS_INIT_RULES; r++) {
        ps_init init = ps_init_of_weight(rules[r][0], 0.5, 50, 100);
        ps_init bias = ps_init_of_bias(rules[r][0], 50);
        double sum = 0, squares = 0;

        ps_init_fill(&init, rig_seed, r, values, N);
        for (size_t i = 0; i < N; i++) {
            sum += (double)values[i] / N;
            squares += (double)values[i] * (double)values[i] / N;
        }
        assert_true(is_close(squares, rules[r][1], 0.05 * rules[r][1], "variance", r));
        assert_true(rules[r][0] == PS_INIT_RULE_CONSTANT
                        ? sum > 0.4999
                        : is_close(sum, 0, 0.05 * sqrt(rules[r][1]), "mean", r));
        assert_true(bias.scale == (rules[r][0] == PS_INIT_RULE_PYTORCH ? init.scale : 0.0f));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_every_stride_and_padding_agree_with_finite_differences),
        cmocka_unit_test(conv2d_matches_a_naive_twin),
        cmocka_unit_test(what_no_window_fits_is_refused),
        cmocka_unit_test(the_first_of_equals_is_the_greatest_and_a_nan_is_greater),
        cmocka_unit_test(batch_norm_s_running_statistics_move_towards_the_batch_s),
        cmocka_unit_test(batch_norm_takes_the_running_statistics_when_not_in_training),
        cmocka_unit_test(dropout_leaves_out_its_share_by_the_key_alone),
        cmocka_unit_test(views_move_nothing_and_lead_gradients_through),
        cmocka_unit_test(reshape_refuses_what_does_not_fill_its_shape),
        cmocka_unit_test(models_draw_by_their_key_in_training_and_not_else),
        cmocka_unit_test(initial_values_have_the_spread_of_their_rule),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
