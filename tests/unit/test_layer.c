/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer.c - what every layer of the list must do, and what dense is. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/layer.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/layer_rig.h"

#include <stdlib.h>
#include <string.h>

static void check_differences(const ps_layer *layer, void *arg)
{
    static const uint32_t sizes[4][3] = {{1, 1, 1}, {1, 7, 5}, {5, 13, 3}, {3, 33, 17}};

    (void)arg;
    for (size_t s = 0; s < 4; s++) {
        rig at = rig_make(layer, sizes[s][0], sizes[s][0], sizes[s][1], sizes[s][2], 0);

        rig_check(&at);
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
    rig_clear(&clean);
    rig_forward(&clean);
    rig_backward(&clean, NULL); /* nobody wants dx */
    rig_forward(&used);
    rig_backward(&used, used.dx.v);
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
    rig_forward(&first);
    rig_backward(&first, first.dx.v);
    for (size_t shift = 0; shift < 3; shift++) {
        rig again = rig_make(layer, 17, 64, 131, 37, shift);

        rig_forward(&again);
        rig_backward(&again, again.dx.v);
        assert_memory_equal(first.y.v, again.y.v, first.y.n * sizeof(float));
        assert_memory_equal(first.dx.v, again.dx.v, first.dx.n * sizeof(float));
        for (uint32_t k = 1; k < first.plan.input_count; k++) {
            assert_memory_equal(first.more_dx[k - 1].v, again.more_dx[k - 1].v,
                                first.more_dx[k - 1].n * sizeof(float));
        }
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
    assert_int_equal(count, 23);
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

        rig_clear(&at);
        rig_forward(&at);
        rig_backward(&at, at.dx.v);
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
    assert_true(plan.vars[0].init.kind == PS_INIT_UNIFORM);
    assert_true(plan.vars[0].init.scale == 0.0816496581f); /* sqrt(6 / 900) */
    assert_string_equal(plan.vars[1].name, "bias");
    assert_int_equal(plan.vars[1].shape.rank, 1);
    assert_int_equal(plan.vars[1].shape.dim[0], 116);
    assert_true(plan.vars[1].init.kind == PS_INIT_CONSTANT && plan.vars[1].init.scale == 0.0f);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
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
