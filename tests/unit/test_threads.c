/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c - a model that several threads compute has the bits of one thread: outputs, loss
 * and gradients of the networks by name, and of convolutions of every kind.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/network.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 37, CLASSES = 10, LAYERS = 8 };

/* The data of a model. */
typedef struct facts {
    ps_shape in;
    uint32_t ids, vocabulary, classes;
} facts;

/* What a model has computed. */
typedef struct result {
    size_t params, width, n;
    float *grad, *y; /* the gradients of two batches, and outputs outside of training */
    ps_score trained, evaluated;
} result;

static float *draw_samples(const facts *of, size_t n)
{
    size_t size = ps_shape_size(&of->in), numbers = size - of->ids;
    uint32_t key = (uint32_t)ps_draw_key(5, PS_DRAW_TEST, 0, 0, 0);
    float *x = ps_xmalloc(n * size * sizeof *x);

    for (size_t i = 0; i < n * size; i++) {
        uint32_t draw = ps_draw_u32(key, (uint32_t)i);

        x[i] = i % size < numbers ? (float)draw * 0x1p-32f - 0.5f : (float)(draw % of->vocabulary);
    }
    return x;
}

static result compute(const ps_layer_spec *specs, size_t count, const char *loss, const facts *of,
                      size_t n, uint32_t threads)
{
    float *x = draw_samples(of, n), *weights, classes[BATCH];
    result out = {.n = n};
    ps_model *model = NULL;
    ps_status st = ps_model_create(specs, count, of->in, ps_loss_find(loss), n, &model);

    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    ps_model_set_threads(model, threads);
    ps_model_set_draws(model, 77);
    for (size_t i = 0; i < n; i++) {
        classes[i] = (float)(i * 3 % of->classes);
    }
    out.params = ps_model_param_count(model);
    out.width = ps_model_output_width(model);
    out.grad = ps_xcalloc(out.params, sizeof *out.grad);
    out.y = ps_xcalloc(n * out.width, sizeof *out.y);
    weights = ps_xcalloc(out.params, sizeof *weights);
    ps_model_init(model, 3, weights);
    for (unsigned i = 0; i < 2; i++) {
        ps_model_train(model, weights, x, ps_targets_classes(classes), n, 0.25f, i > 0, out.grad,
                       NULL, &out.trained);
    }
    ps_model_eval(model, weights, x, ps_targets_classes(classes), n, &out.evaluated);
    memcpy(out.y, ps_model_predict(model, weights, x, n), n * out.width * sizeof *out.y);
    ps_model_destroy(model);
    free(weights);
    free(x);
    return out;
}

static void must_equal(const float *got, const float *want, size_t n, const char *what,
                       const char *name, uint32_t threads)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof got[i]) != 0) {
            fail_msg("%s, %u threads: %s[%zu] is %.9g, of one thread %.9g", name, threads, what, i,
                     (double)got[i], (double)want[i]);
        }
    }
}

static void check(const char *name, const ps_layer_spec *specs, size_t count, const char *loss,
                  const facts *of, size_t n)
{
    result one = compute(specs, count, loss, of, n, 1);

    for (uint32_t threads = 2; threads <= 5; threads += threads == 2 ? 1 : 2) {
        result many = compute(specs, count, loss, of, n, threads);

        must_equal(many.grad, one.grad, one.params, "gradient", name, threads);
        must_equal(many.y, one.y, n * one.width, "output", name, threads);
        assert_true(many.trained.loss_sum == one.trained.loss_sum);
        assert_true(many.evaluated.loss_sum == one.evaluated.loss_sum);
        free(many.grad);
        free(many.y);
    }
    free(one.grad);
    free(one.y);
}

static void check_network(const char *name, facts of, size_t n)
{
    const ps_network *network = ps_network_find(name);
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    ps_network_facts given = {.features = (uint32_t)ps_shape_size(&of.in),
                              .ids = of.ids,
                              .vocabulary = of.vocabulary,
                              .classes = of.classes,
                              .outputs = of.classes};
    ps_params params = ps_params_default(network->params);
    size_t count;
    ps_status st = ps_network_specs(network, &given, &params, specs, &count);

    assert_true(ps_is_ok(&st));
    check(name, specs, count, network->loss != NULL ? network->loss : "softmax_cross_entropy", &of,
          n);
    free(specs);
}

static const facts digit = {.in = {.rank = 3, .dim = {1, 28, 28}}, .classes = CLASSES};
static const facts image = {.in = {.rank = 3, .dim = {3, 32, 32}}, .classes = CLASSES};

static void networks_for_images_have_the_bits_of_one_thread(void **state)
{
    (void)state;
    check_network("cnn", digit, BATCH);
    check_network("alexnet", image, BATCH);
    check_network("resnet14", image, BATCH);
    check_network("resnet20", image, 7);
    check_network("resnet18", image, 3);
}

static void networks_over_ids_have_the_bits_of_one_thread(void **state)
{
    (void)state;
    check_network("ngram", (facts){.in = {1, {4}}, .ids = 4, .vocabulary = 5003, .classes = 5003},
                  BATCH);
    check_network("skipgram", (facts){.in = {1, {7}}, .ids = 7, .vocabulary = 60, .classes = 6},
                  BATCH);
    check_network("wide_deep",
                  (facts){.in = {1, {39}}, .ids = 26, .vocabulary = 2000, .classes = 2}, BATCH);
}

/* A list of layers, with numbers in the order of the kind's table. */
typedef struct line {
    const char *kind;
    double first[5];
    size_t count;
} line;

static void check_lines(const char *name, const line *lines, size_t count, facts of, size_t n)
{
    ps_layer_spec specs[LAYERS] = {{0}};

    assert_true(count <= LAYERS);
    for (size_t i = 0; i < count; i++) {
        specs[i].layer = ps_layer_find(lines[i].kind);
        specs[i].params = ps_params_default(specs[i].layer->params);
        memcpy(specs[i].params.v, lines[i].first, lines[i].count * sizeof *lines[i].first);
        snprintf(specs[i].name, sizeof specs[i].name, "%s%zu", lines[i].kind, i);
    }
    check(name, specs, count, "softmax_cross_entropy", &of, n);
}

/* Wide layers of every activation, of batches of many sizes. */
static void dense_layers_have_the_bits_of_one_thread(void **state)
{
    static const char *const between[] = {"relu",       "tanh",       "sigmoid", "hard_tanh",
                                          "leaky_relu", "batch_norm", "dropout", "softmax"};
    static const size_t batches[] = {1, 2, 5, 16, 31, 36};
    facts of = {.in = {.rank = 1, .dim = {515}}, .classes = CLASSES};

    (void)state;
    for (size_t i = 0; i < sizeof between / sizeof between[0]; i++) {
        const line lines[] = {{"dense", {2051}, 1},
                              {between[i], {0}, 0},
                              {"dense", {777}, 1},
                              {between[i], {0}, 0},
                              {"dense", {CLASSES}, 1}};

        for (size_t b = i % 2; b < sizeof batches / sizeof batches[0]; b += 2) {
            check_lines(between[i], lines, 5, of, batches[b]);
        }
    }
}

typedef struct conv_case {
    size_t n;
    uint32_t chw[3];
    double filters, kernel, stride, padding;
} conv_case;

/* A convolution of each kind behind one of 1 x 1, so that it has a gradient of its input, and what
 * may follow: norm, pooling, channels left out. */
static void convolutions_have_the_bits_of_one_thread(void **state)
{
    static const conv_case cases[] = {
        /* Winograd: blocks of several images, of one, and of a part of one */
        {33, {16, 8, 8}, 24, 3, 1, 1},
        {5, {9, 26, 26}, 17, 3, 1, 0},
        {2, {8, 63, 39}, 8, 3, 1, 1},
        {3, {40, 33, 18}, 48, 3, 1, 2},
        /* strips */
        {7, {3, 32, 32}, 7, 3, 1, 1},
        {31, {8, 16, 16}, 6, 3, 2, 1},
        {5, {3, 17, 19}, 13, 3, 2, 1},
        {9, {2, 25, 36}, 35, 2, 4, 3},
        {4, {4, 37, 40}, 5, 11, 4, 5},
        /* small images */
        {36, {26, 4, 4}, 67, 5, 1, 2},
        {17, {50, 2, 2}, 64, 3, 1, 1},
        {20, {30, 3, 7}, 9, 7, 2, 3},
        /* im2col, one sample at a time and several */
        {3, {2, 70, 65}, 9, 3, 1, 1},
        {7, {33, 4, 4}, 65, 3, 1, 1},
        {36, {31, 9, 9}, 35, 3, 2, 1},
    };
    static const char *const behind[] = {"batch_norm", "maxpool2d", "avgpool2d", "channel_dropout",
                                         "shortcut"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const conv_case *c = &cases[i];
        facts of = {.in = {.rank = 3, .dim = {c->chw[0], c->chw[1], c->chw[2]}},
                    .classes = CLASSES};
        char name[80];
        const line lines[] = {{"conv2d", {c->chw[0], 1, 1, 0, 1}, 5},
                              {"conv2d", {c->filters, c->kernel, c->stride, c->padding, 1}, 5},
                              {behind[i % 5], {0}, 0},
                              {"relu", {0}, 0},
                              {"global_avgpool", {0}, 0},
                              {"dense", {CLASSES}, 1}};

        snprintf(name, sizeof name, "%u channels of %u x %u, %.0f filters of %.0f", c->chw[0],
                 c->chw[1], c->chw[2], c->filters, c->kernel);
        check_lines(name, lines, sizeof lines / sizeof lines[0], of, c->n);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_for_images_have_the_bits_of_one_thread),
        cmocka_unit_test(networks_over_ids_have_the_bits_of_one_thread),
        cmocka_unit_test(dense_layers_have_the_bits_of_one_thread),
        cmocka_unit_test(convolutions_have_the_bits_of_one_thread),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
