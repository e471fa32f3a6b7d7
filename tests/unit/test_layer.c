/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer.c - what every layer of the list must do, and what dense is. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/nn/layer.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20240602;

enum { GUARD = 16 }; /* floats before and behind each tensor that nobody may write */

typedef struct tensor {
    float *block; /* guard, shift, values, guard */
    float *v;
    size_t n;
} tensor;

/* A layer with its tensors, filled by draws of magnitude 0.2 to 1.2: away from
 * zero, so that a step of finite differences crosses no kink. */
typedef struct rig {
    const ps_layer *layer;
    ps_layer_plan plan;
    size_t n, in, out; /* samples, values of a sample */
    tensor x, y, dx, dy, tape;
    tensor w[PS_LAYER_VARS_MAX], dw[PS_LAYER_VARS_MAX];
} rig;

static const float canary = 12345.0f;

static tensor make(size_t n, size_t shift, uint64_t stream)
{
    size_t total = n + shift + 2 * GUARD;
    tensor out = {.block = ps_xaligned_alloc(total * sizeof(float)), .n = n};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, stream, 0, 0);

    out.v = out.block + GUARD + shift;
    for (size_t i = 0; i < total; i++) {
        out.block[i] = canary;
    }
    for (size_t i = 0; i < n; i++) {
        double u = 2.0 * ps_draw_unit(key, i) - 1.0;

        out.v[i] = (float)(u < 0 ? u - 0.2 : u + 0.2);
    }
    return out;
}

static void drop(tensor *at)
{
    for (size_t i = 0; i < GUARD; i++) {
        assert_true(at->v[-1 - (ptrdiff_t)i] == canary && at->v[at->n + i] == canary);
    }
    free(at->block);
}

/* n of `batch` samples of `in` values; every tensor is `shift` floats off its alignment. */
static rig rig_make(const ps_layer *layer, size_t n, size_t batch, uint32_t in, uint32_t units,
                    size_t shift)
{
    rig at = {.layer = layer, .n = n, .in = in};
    int wide = ps_param_find(layer->params, "units");
    ps_status st;

    at.plan = (ps_layer_plan){.in = {.rank = 1, .dim = {in}}, .batch = batch};
    at.plan.params = ps_params_default(layer->params);
    if (wide >= 0) {
        at.plan.params.v[wide] = units;
    }
    st = layer->plan(&at.plan);
    assert_true(ps_is_ok(&st));
    at.out = ps_shape_size(&at.plan.out);
    at.x = make(n * at.in, shift, 0);
    at.y = make(n * at.out, shift, 1);
    at.dx = make(n * at.in, shift, 2);
    at.dy = make(n * at.out, shift, 3);
    at.tape = make(at.plan.tape_floats, shift, 4);
    for (unsigned v = 0; v < at.plan.var_count; v++) {
        at.w[v] = make(ps_shape_size(&at.plan.vars[v].shape), shift, 5 + v);
        at.dw[v] = make(at.w[v].n, shift, 10 + v);
    }
    return at;
}

static void rig_drop(rig *at)
{
    drop(&at->x);
    drop(&at->y);
    drop(&at->dx);
    drop(&at->dy);
    drop(&at->tape);
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        drop(&at->w[v]);
        drop(&at->dw[v]);
    }
}

static void clear_gradients(rig *at)
{
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        memset(at->dw[v].v, 0, at->dw[v].n * sizeof(float));
    }
}

static void forward(rig *at)
{
    const float *w[PS_LAYER_VARS_MAX] = {at->w[0].v, at->w[1].v, at->w[2].v, at->w[3].v};

    at->layer->forward(&at->plan, w, at->x.v, at->y.v, at->tape.v, at->n);
}

static void backward(rig *at, float *dx)
{
    const float *w[PS_LAYER_VARS_MAX] = {at->w[0].v, at->w[1].v, at->w[2].v, at->w[3].v};
    float *dw[PS_LAYER_VARS_MAX] = {at->dw[0].v, at->dw[1].v, at->dw[2].v, at->dw[3].v};

    at->layer->backward(&at->plan, w, at->x.v, at->y.v, at->tape.v, at->dy.v, dw, dx, at->n);
}

/* sum of dy * y: the number whose gradient backward gives. */
static double objective(rig *at)
{
    double sum = 0;

    forward(at);
    for (size_t i = 0; i < at->y.n; i++) {
        sum += (double)at->dy.v[i] * (double)at->y.v[i];
    }
    return sum;
}

static double objective_at(rig *at, float *value, float x)
{
    float held = *value;
    double out;

    *value = x;
    out = objective(at);
    *value = held;
    return out;
}

/* Fourth-order central differences: the error of h^4 is far below that of float32. */
static void compare_with_differences(rig *at, tensor *of, const tensor *gradient, const char *what)
{
    const float h = 0x1p-5f;

    for (size_t i = 0; i < of->n; i++) {
        float v = of->v[i];
        double near = objective_at(at, &of->v[i], v + h) - objective_at(at, &of->v[i], v - h);
        double far =
            objective_at(at, &of->v[i], v + 2 * h) - objective_at(at, &of->v[i], v - 2 * h);
        double want = (8 * near - far) / (12 * (double)h);

        assert_true(is_close((double)gradient->v[i], want, 1e-4 * (1 + fabs(want)), what, i));
    }
}

static void check_differences(const ps_layer *layer, void *arg)
{
    static const uint32_t sizes[4][3] = {{1, 1, 1}, {1, 7, 5}, {5, 13, 3}, {3, 33, 17}};

    (void)arg;
    for (size_t s = 0; s < 4; s++) {
        rig at = rig_make(layer, sizes[s][0], sizes[s][0], sizes[s][1], sizes[s][2], 0);

        clear_gradients(&at);
        forward(&at);
        backward(&at, at.dx.v);
        compare_with_differences(&at, &at.x, &at.dx, layer->kind);
        for (unsigned v = 0; v < at.plan.var_count; v++) {
            compare_with_differences(&at, &at.w[v], &at.dw[v], at.plan.vars[v].name);
        }
        rig_drop(&at);
    }
}

static void every_layer_agrees_with_finite_differences(void **state)
{
    (void)state;
    ps_layer_each(check_differences, NULL);
}

static void check_adds(const ps_layer *layer, void *arg)
{
    rig clean = rig_make(layer, 3, 3, 9, 5, 0), used = rig_make(layer, 3, 3, 9, 5, 0);
    rig before = rig_make(layer, 3, 3, 9, 5, 0);

    (void)arg;
    clear_gradients(&clean);
    forward(&clean);
    backward(&clean, NULL); /* nobody wants dx */
    forward(&used);
    backward(&used, used.dx.v);
    for (unsigned v = 0; v < clean.plan.var_count; v++) {
        for (size_t i = 0; i < clean.dw[v].n; i++) {
            double want = (double)before.dw[v].v[i] + (double)clean.dw[v].v[i];

            assert_true(is_close((double)used.dw[v].v[i], want, 1e-5, layer->kind, i));
        }
    }
    assert_memory_equal(clean.dx.v, before.dx.v, clean.dx.n * sizeof(float));
    rig_drop(&clean);
    rig_drop(&used);
    rig_drop(&before);
}

static void every_layer_adds_to_the_gradients_that_are_there(void **state)
{
    (void)state;
    ps_layer_each(check_adds, NULL);
}

static void check_bits(const ps_layer *layer, void *arg)
{
    rig first = rig_make(layer, 17, 64, 131, 37, 0);

    (void)arg;
    forward(&first);
    backward(&first, first.dx.v);
    for (size_t shift = 0; shift < 3; shift++) {
        rig again = rig_make(layer, 17, 64, 131, 37, shift);

        forward(&again);
        backward(&again, again.dx.v);
        assert_memory_equal(first.y.v, again.y.v, first.y.n * sizeof(float));
        assert_memory_equal(first.dx.v, again.dx.v, first.dx.n * sizeof(float));
        for (unsigned v = 0; v < first.plan.var_count; v++) {
            assert_memory_equal(first.dw[v].v, again.dw[v].v, first.dw[v].n * sizeof(float));
        }
        rig_drop(&again);
    }
    rig_drop(&first);
}

static void every_layer_gives_the_same_bits_again_wherever_its_tensors_lie(void **state)
{
    (void)state;
    ps_layer_each(check_bits, NULL);
}

static void check_facts(const ps_layer *layer, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_layer_find(layer->kind), layer);
    assert_true(strlen(layer->summary) > 0);
    for (const ps_param *p = layer->params; p != NULL && p->name != NULL; p++) {
        assert_true(p->min <= p->value && p->value <= p->max && p->help != NULL);
    }
}

static void every_layer_is_found_by_its_kind(void **state)
{
    size_t count = 0;

    (void)state;
    ps_layer_each(check_facts, &count);
    assert_int_equal(count, 4);
    assert_null(ps_layer_find("dens"));
}

static void dense_matches_a_naive_twin(void **state)
{
    static const uint32_t sizes[4][3] = {{1, 1, 1}, {1, 784, 10}, {7, 31, 19}, {64, 784, 128}};

    (void)state;
    for (size_t s = 0; s < 4; s++) {
        size_t n = sizes[s][0], in = sizes[s][1], out = sizes[s][2];
        rig at = rig_make(ps_layer_find("dense"), n, n, sizes[s][1], sizes[s][2], 1);
        double tolerance = 1e-6 * (double)(in + out + n);

        clear_gradients(&at);
        forward(&at);
        backward(&at, at.dx.v);
        for (size_t i = 0; i < n * out; i++) { /* y = x W^T + b */
            double want = (double)at.w[1].v[i % out];

            for (size_t k = 0; k < in; k++) {
                want += (double)at.x.v[i / out * in + k] * (double)at.w[0].v[i % out * in + k];
            }
            assert_true(is_close((double)at.y.v[i], want, tolerance, "y", i));
        }
        for (size_t i = 0; i < out * in; i++) { /* dW = dy^T x */
            double want = 0;

            for (size_t k = 0; k < n; k++) {
                want += (double)at.dy.v[k * out + i / in] * (double)at.x.v[k * in + i % in];
            }
            assert_true(is_close((double)at.dw[0].v[i], want, tolerance, "dW", i));
        }
        for (size_t i = 0; i < n * in; i++) { /* dx = dy W */
            double want = 0;

            for (size_t k = 0; k < out; k++) {
                want += (double)at.dy.v[i / in * out + k] * (double)at.w[0].v[k * in + i % in];
            }
            assert_true(is_close((double)at.dx.v[i], want, tolerance, "dx", i));
        }
        for (size_t i = 0; i < out; i++) { /* db = sum of dy */
            double want = 0;

            for (size_t k = 0; k < n; k++) {
                want += (double)at.dy.v[k * out + i];
            }
            assert_true(is_close((double)at.dw[1].v[i], want, tolerance, "db", i));
        }
        rig_drop(&at);
    }
}

static void dense_plans_glorot_weights_over_a_flat_input(void **state)
{
    ps_layer_plan plan = {.in = {.rank = 3, .dim = {1, 28, 28}}, .batch = 1, .params = {{116}}};
    ps_status st = ps_layer_find("dense")->plan(&plan);

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_int_equal(plan.out.rank, 1);
    assert_int_equal(plan.out.dim[0], 116);
    assert_int_equal(plan.var_count, 2);
    assert_string_equal(plan.vars[0].name, "weight");
    assert_int_equal(plan.vars[0].shape.rank, 2);
    assert_int_equal(plan.vars[0].shape.dim[0], 116);
    assert_int_equal(plan.vars[0].shape.dim[1], 784);
    assert_true(plan.vars[0].init_limit == 0.0816496581f); /* sqrt(6 / 900) */
    assert_string_equal(plan.vars[1].name, "bias");
    assert_int_equal(plan.vars[1].shape.rank, 1);
    assert_int_equal(plan.vars[1].shape.dim[0], 116);
    assert_true(plan.vars[1].init_limit == 0.0f);
}

static void dense_refuses_what_it_cannot_hold(void **state)
{
    ps_layer_plan plan = {.in = {.rank = 4, .dim = {1u << 31, 1u << 31, 1u << 31, 2}},
                          .params = {{1}}};
    ps_status st = ps_layer_find("dense")->plan(&plan);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    plan.in = (ps_shape){.rank = 1, .dim = {1 << 20}};
    plan.params.v[0] = (1 << 10) + 1;
    st = ps_layer_find("dense")->plan(&plan);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    plan.params.v[0] = 1 << 10;
    st = ps_layer_find("dense")->plan(&plan);
    assert_true(ps_is_ok(&st));
}

static void kernels_are_those_of_this_processor(void **state)
{
    (void)state;
    ps_nn_init_process();
    ps_nn_init_process();
    print_message("kernels %s\n", ps_nn_kernels());
#if defined(__x86_64__)
    assert_false(__builtin_cpu_supports("avx2") && strcmp(ps_nn_kernels(), "Prescott") == 0);
#endif
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_those_of_this_processor),
        cmocka_unit_test(every_layer_is_found_by_its_kind),
        cmocka_unit_test(every_layer_agrees_with_finite_differences),
        cmocka_unit_test(every_layer_adds_to_the_gradients_that_are_there),
        cmocka_unit_test(every_layer_gives_the_same_bits_again_wherever_its_tensors_lie),
        cmocka_unit_test(dense_matches_a_naive_twin),
        cmocka_unit_test(dense_plans_glorot_weights_over_a_flat_input),
        cmocka_unit_test(dense_refuses_what_it_cannot_hold),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
