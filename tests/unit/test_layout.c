/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - every value is in exactly one slice. */
#include "common/job/layout.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>

/* dense layers of these widths on samples of `in` values. */
static ps_model *mlp(uint32_t in, const uint32_t *widths, size_t count)
{
    ps_layer_spec layers[8];
    ps_model *model = NULL;
    ps_status st;

    for (size_t i = 0; i < count; i++) {
        layers[i] = (ps_layer_spec){.layer = ps_layer_find("dense")};
        layers[i].params = ps_params_default(layers[i].layer->params);
        layers[i].params.v[0] = widths[i];
        snprintf(layers[i].name, sizeof layers[i].name, "dense%zu", i);
    }
    st = ps_model_create(layers, count, (ps_shape){.rank = 1, .dim = {in}},
                         ps_loss_find("softmax_cross_entropy"), 1, &model);
    assert_true(ps_is_ok(&st));
    return model;
}

static ps_model *tutorial(void)
{
    static const uint32_t widths[] = {128, 128, 10};

    return mlp(784, widths, 3);
}

static void every_value_is_in_exactly_one_slice(void **state)
{
    static const uint32_t wide[] = {1000, 333, 7, 2};
    ps_model *model = mlp(123, wide, 4);
    ps_layout layout;
    size_t at = 0;

    (void)state;
    ps_layout_init(&layout, model, false);
    assert_int_equal(layout.param_count, ps_model_param_count(model));
    for (uint32_t i = 0; i < layout.slice_count; i++) {
        const ps_slice *slice = &layout.slices[i];
        const ps_variable *var = &layout.variables[slice->variable];

        assert_int_equal(slice->index, i);
        assert_int_equal(slice->at, at);
        assert_in_range(slice->n, 1, PS_SLICE_VALUES);
        assert_int_equal(slice->shard, i % PS_SHARDS);
        assert_true(slice->at >= var->at && slice->at + slice->n <= var->at + var->size);
        assert_in_range(i, layout.first_slice[slice->variable],
                        layout.first_slice[slice->variable + 1] - 1);
        at += slice->n;
    }
    assert_int_equal(at, layout.param_count);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void the_hash_is_of_names_and_shapes_and_of_nothing_else(void **state)
{
    static const uint32_t a[] = {128, 10}, b[] = {10, 128};
    ps_model *one = tutorial(), *two = mlp(784, a, 2), *three = mlp(784, b, 2);
    ps_layout x, y;

    (void)state;
    ps_layout_init(&x, one, false);
    ps_layout_init(&y, one, false);
    assert_true(x.hash == y.hash);
    assert_true(x.hash == UINT64_C(0x53a532e9c42a2ee8)); /* the same for ever */
    ps_layout_fini(&y);
    ps_layout_init(&y, two, false);
    assert_true(x.hash != y.hash);
    ps_layout_fini(&x);
    ps_layout_init(&x, three, false);
    assert_true(x.hash != y.hash);
    ps_layout_fini(&x);
    ps_layout_fini(&y);
    ps_layout_fini(&y); /* twice is allowed */
    ps_model_destroy(one);
    ps_model_destroy(two);
    ps_model_destroy(three);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_in_exactly_one_slice),
        cmocka_unit_test(the_hash_is_of_names_and_shapes_and_of_nothing_else),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
