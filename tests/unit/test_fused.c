/* SPDX-License-Identifier: Apache-2.0 */
/* test_fused.c - layers that do the relu behind them, or write over what they read: nobody can
 * see it in the bits.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/model.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/layer_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20261121;

static float *draws(size_t n, uint32_t which)
{
    uint32_t key = (uint32_t)ps_draw_key(seed, PS_DRAW_TEST, which, 0, 0);
    float *x = ps_xmalloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ps_draw_u32(key, (uint32_t)i) * 0x1p-31f - 1.0f;
    }
    return x;
}

/* A layer with a relu behind it, and the same as two layers. */
typedef struct pair {
    const ps_layer *layer, *relu;
    ps_layer_plan plan;
    size_t n, values, params;
    float *w, *x, *added, *dy; /* what both read */
    float *between, *y, *tape, *slopes, *dw, *dx;
} pair;

static pair pair_of(const ps_layer *layer, size_t n, ps_shape in)
{
    pair at = {.layer = layer, .relu = ps_layer_find("relu"), .n = n};
    ps_status st;

    at.plan = (ps_layer_plan){.in = in, .batch = n, .params = ps_params_default(layer->params)};
    st = layer->plan(&at.plan);
    assert_true(ps_is_ok(&st));
    at.values = n * ps_shape_size(&at.plan.out);
    for (unsigned v = 0; v < at.plan.var_count; v++) {
        at.params += ps_shape_size(&at.plan.vars[v].shape);
    }
    at.w = draws(at.params, 1);
    at.x = draws(n * ps_shape_size(&in), 2);
    at.added = draws(at.values, 3);
    at.dy = draws(at.values, 4);
    at.between = ps_xcalloc(at.values, sizeof(float));
    at.y = ps_xcalloc(at.values, sizeof(float));
    at.tape = ps_xcalloc(at.plan.tape_floats + 1, sizeof(float));
    at.slopes = ps_xcalloc(at.values, sizeof(float));
    at.dw = ps_xcalloc(at.params, sizeof(float));
    at.dx = ps_xcalloc(n * ps_shape_size(&in), sizeof(float));
    return at;
}

static void drop(pair *at)
{
    float *all[] = {at->w, at->x,    at->added,  at->dy, at->between,
                    at->y, at->tape, at->slopes, at->dw, at->dx};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void locate(const pair *at, float *block, float **w)
{
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        w[v] = block;
        block += ps_shape_size(&at->plan.vars[v].shape);
    }
}

/* Layer, addition, relu, and back; in `slopes` what comes through the relu. */
static void run_apart(pair *at, ps_pass pass, bool is_added)
{
    float *w[PS_LAYER_VARS_MAX], *dw[PS_LAYER_VARS_MAX];
    ps_layer_plan of_relu = {.in = at->plan.out, .out = at->plan.out, .batch = at->n};

    locate(at, at->w, w);
    locate(at, at->dw, dw);
    at->layer->forward(&at->plan, &pass, (const float *const *)w, at->x, at->between, at->tape,
                       at->n);
    for (size_t i = 0; is_added && i < at->values; i++) {
        at->between[i] += at->added[i];
    }
    at->relu->forward(&of_relu, &pass, NULL, at->between, at->y, NULL, at->n);
    if (pass.is_training) {
        at->relu->backward(&of_relu, &pass, NULL, at->between, at->y, NULL, at->dy, NULL,
                           at->slopes, at->n);
        at->layer->backward(&at->plan, &pass, (const float *const *)w, at->x, at->between, at->tape,
                            at->slopes, dw, at->dx, at->n);
    }
}

enum dadded { NOWHERE, ELSEWHERE, IN_PLACE, DADDED_KINDS };

static void run_fused(pair *at, ps_pass pass, bool is_added, enum dadded where)
{
    float *w[PS_LAYER_VARS_MAX], *dw[PS_LAYER_VARS_MAX];
    const ps_layer *layer = at->layer->with_relu;

    locate(at, at->w, w);
    locate(at, at->dw, dw);
    pass.added = is_added ? at->added : NULL;
    layer->forward(&at->plan, &pass, (const float *const *)w, at->x, at->y, at->tape, at->n);
    if (is_added && where != NOWHERE) {
        pass.dadded = where == ELSEWHERE ? at->slopes : at->dy;
    }
    if (pass.is_training) {
        layer->backward(&at->plan, &pass, (const float *const *)w, at->x, at->y, at->tape, at->dy,
                        dw, at->dx, at->n);
    }
}

static void compare(const ps_layer *layer, size_t n, ps_shape in, bool is_training, bool is_added,
                    enum dadded where)
{
    pair apart = pair_of(layer, n, in), fused = pair_of(layer, n, in);
    ps_pass pass = {.is_training = is_training, .scale = 0.5f};

    run_apart(&apart, pass, is_added);
    run_fused(&fused, pass, is_added, where);
    assert_memory_equal(apart.y, fused.y, apart.values * sizeof(float));
    assert_memory_equal(apart.dw, fused.dw, apart.params * sizeof(float));
    assert_memory_equal(apart.dx, fused.dx, n * ps_shape_size(&in) * sizeof(float));
    if (is_training && is_added && where != NOWHERE) {
        assert_memory_equal(apart.slopes, where == ELSEWHERE ? fused.slopes : fused.dy,
                            apart.values * sizeof(float));
    }
    drop(&apart);
    drop(&fused);
}

static const struct {
    uint32_t n;
    ps_shape in;
} sizes[] = {
    {3, {3, {2, 5, 7}}},   {2, {3, {70, 3, 3}}}, {1, {3, {1, 40, 41}}}, {4, {3, {3, 1, 1}}},
    {1, {3, {2, 32, 32}}}, {5, {1, {67}}},       {1, {1, {1}}},
};

enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check_with_relu(const ps_layer *layer, void *seen)
{
    for (size_t i = 0; layer->with_relu != NULL && i < SIZES; i++) {
        for (unsigned k = 0; k < 2 * 2 * DADDED_KINDS; k++) {
            compare(layer, sizes[i].n, sizes[i].in, k % 2 == 0, k / 2 % 2 == 0,
                    (enum dadded)(k / 4));
        }
        ++*(size_t *)seen;
    }
}

static void a_layer_with_its_relu_gives_the_bits_of_both_apart(void **state)
{
    size_t seen = 0;

    (void)state;
    ps_layer_each(check_with_relu, &seen);
    assert_true(seen > 0);
}

static void check_in_place(const ps_layer *layer, void *seen)
{
    for (unsigned k = 0; layer->slope_in_place && k < 2; k++) {
        const ps_layer *which = k == 0 ? layer : layer->with_relu;
        rig apart, over;

        if (which == NULL) {
            continue;
        }
        apart = rig_make(which, 3, 4, 9, 8, 0);
        over = rig_make(which, 3, 4, 9, 8, 0);
        rig_clear(&apart);
        rig_clear(&over);
        rig_forward(&apart);
        rig_forward(&over);
        rig_backward(&apart, apart.dx.v);
        rig_backward(&over, over.dy.v);
        assert_int_equal(apart.dx.n, over.dy.n);
        assert_memory_equal(apart.dx.v, over.dy.v, apart.dx.n * sizeof(float));
        for (unsigned v = 0; v < apart.plan.var_count; v++) {
            assert_memory_equal(apart.dw[v].v, over.dw[v].v, apart.dw[v].n * sizeof(float));
        }
        rig_drop(&apart);
        rig_drop(&over);
        ++*(size_t *)seen;
    }
}

static void layers_that_say_so_write_slopes_over_slopes(void **state)
{
    size_t seen = 0;

    (void)state;
    ps_layer_each(check_in_place, &seen);
    assert_true(seen > 0);
}

/* Networks of norms: each either ends with a relu, or has an earlier output added first. With a
 * view between them no layer takes the relu behind it. */
enum { CHANNELS = 3, SIDE = 4, BATCH = 5, CLASSES = 4, SPECS_MAX = 64, GRAPHS = 100, BLOCKS = 6 };

typedef struct network {
    ps_layer_spec specs[SPECS_MAX];
    size_t count;
} network;

/* Its number, as in ps_layer_spec. */
static uint32_t put(network *net, const char *kind, uint32_t count, uint32_t a, uint32_t b)
{
    ps_layer_spec *spec = &net->specs[net->count];

    assert_true(net->count < SPECS_MAX);
    *spec = (ps_layer_spec){.layer = ps_layer_find(kind), .input_count = count, .inputs = {a, b}};
    spec->params = ps_params_default(spec->layer->params);
    snprintf(spec->name, sizeof spec->name, "%s%zu", kind, net->count);
    return (uint32_t)++net->count;
}

/* What is read by nobody is added up in the end. */
static network draw_network(uint32_t which, bool is_apart)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, which, 1, 0), draw = 0;
    network net = {.count = 0};
    uint32_t outputs[2 * BLOCKS + 1] = {0}, count = 1, last;
    bool is_read[2 * BLOCKS + 1] = {true};

    for (size_t b = 0; b < BLOCKS; b++) {
        uint32_t from = (uint32_t)ps_draw_below(key, draw++, count);
        uint32_t added = (uint32_t)ps_draw_below(key, draw++, count);
        uint64_t kind = ps_draw_below(key, draw++, 4);
        uint32_t norm = put(&net, "batch_norm", 1, outputs[from], 0), end;

        is_read[from] = true;
        end = is_apart ? put(&net, "linear", 1, norm, 0) : norm;
        if (kind > 0) {
            uint64_t more = ps_draw_below(key, draw++, 3);
            uint32_t other = outputs[added];

            if (more > 0) { /* computed behind the norm; another one, perhaps */
                other = put(&net, more == 1 ? "tanh" : "batch_norm", 1, other, 0);
                other = is_apart ? put(&net, "linear", 1, other, 0) : other;
            }
            end = kind > 1 ? put(&net, "add", 2, end, other) : put(&net, "add", 2, other, end);
            is_read[added] = true;
        }
        if (kind == 3) { /* what is before the relu may be read too: then nothing is fused */
            is_read[count] = false;
            outputs[count++] = end;
        }
        is_read[count] = false;
        outputs[count++] = put(&net, "relu", 1, end, 0);
    }
    last = outputs[count - 1];
    for (uint32_t k = 1; k + 1 < count; k++) {
        last = is_read[k] ? last : put(&net, "add", 2, last, outputs[k]);
    }
    put(&net, "flatten", 1, last, 0);
    put(&net, "dense", 0, 0, 0);
    net.specs[net.count - 1].params.v[0] = CLASSES;
    return net;
}

typedef struct result {
    size_t params, memory;
    float *grad;
    double loss;
} result;

static result train(const network *net)
{
    ps_shape in = {3, {CHANNELS, SIDE, SIDE}};
    float *x = draws((size_t)BATCH * CHANNELS * SIDE * SIDE, 5), *weights;
    float classes[BATCH] = {0, 1, 2, 3, 0};
    ps_score score = {0};
    ps_model *model = NULL;
    ps_status st = ps_model_create(net->specs, net->count, in,
                                   ps_loss_find("softmax_cross_entropy"), BATCH, &model);
    result out;

    assert_true(ps_is_ok(&st));
    out.params = ps_model_param_count(model);
    out.memory = ps_model_activations(model);
    out.grad = ps_xcalloc(out.params, sizeof(float));
    weights = ps_xcalloc(out.params, sizeof(float));
    ps_model_init(model, seed, weights);
    ps_model_train(model, weights, x, ps_targets_classes(classes), BATCH, 0.2f, false, out.grad,
                   NULL, &score);
    out.loss = score.loss_sum;
    ps_model_destroy(model);
    free(weights);
    free(x);
    return out;
}

static void models_take_relus_without_a_trace_but_for_memory(void **state)
{
    size_t smaller = 0;

    (void)state;
    for (uint32_t g = 0; g < GRAPHS; g++) {
        network fused_net = draw_network(g, false), apart_net = draw_network(g, true);
        result fused = train(&fused_net), apart = train(&apart_net);

        assert_int_equal(fused.params, apart.params);
        assert_true(fused.loss == apart.loss);
        assert_true(fused.memory <= apart.memory);
        smaller += fused.memory < apart.memory;
        for (size_t i = 0; i < fused.params; i++) {
            /* Where three gradients meet, their order may differ. */
            if (fabs((double)fused.grad[i] - (double)apart.grad[i]) >
                1e-5 * (fabs((double)apart.grad[i]) + 1e-2)) {
                fail_msg("graph %u, gradient %zu: %g, not %g", g, i, (double)fused.grad[i],
                         (double)apart.grad[i]);
            }
        }
        free(fused.grad);
        free(apart.grad);
    }
    assert_true(smaller > GRAPHS / 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_with_its_relu_gives_the_bits_of_both_apart),
        cmocka_unit_test(layers_that_say_so_write_slopes_over_slopes),
        cmocka_unit_test(models_take_relus_without_a_trace_but_for_memory),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
