/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - every value in one slice, every slice on one server. */
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
    ps_layout_init(&layout, model, 3, false);
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

static void every_slice_is_on_exactly_one_server(void **state)
{
    ps_model *model = tutorial();

    (void)state;
    for (uint32_t servers = 1; servers <= 12; servers++) {
        ps_layout layout;
        uint32_t seen[64] = {0}, total = 0;

        ps_layout_init(&layout, model, servers, false);
        assert_int_equal(layout.slice_count, 12); /* 7 of dense0.weight, 1 of each other */
        for (uint32_t r = 0; r < servers; r++) {
            assert_true(layout.owned_count[r] > 0);
            for (uint32_t k = 0; k < layout.owned_count[r]; k++) {
                uint32_t i = layout.owned[r][k];

                assert_true(k == 0 || i > layout.owned[r][k - 1]);
                assert_int_equal(layout.slices[i].server, r);
                seen[i]++;
                total++;
            }
        }
        assert_int_equal(total, layout.slice_count);
        for (uint32_t i = 0; i < layout.slice_count; i++) {
            assert_int_equal(seen[i], 1);
        }
        ps_layout_fini(&layout);
    }
    ps_model_destroy(model);
}

static void servers_are_loaded_alike(void **state)
{
    static const uint32_t big[] = {2048, 2048, 10}; /* 5.8 million values, 357 slices */
    ps_model *model = mlp(784, big, 3);

    (void)state;
    for (uint32_t servers = 1; servers <= 8; servers++) {
        ps_layout layout;
        size_t least = SIZE_MAX, most = 0;

        ps_layout_init(&layout, model, servers, false);
        for (uint32_t r = 0; r < servers; r++) {
            size_t load = 0;

            for (uint32_t k = 0; k < layout.owned_count[r]; k++) {
                load += layout.slices[layout.owned[r][k]].n;
            }
            least = load < least ? load : least;
            most = load > most ? load : most;
        }
        /* A shard here has at most two slices: no two servers differ by more. */
        assert_true(most - least <= 2 * PS_SLICE_VALUES);
        ps_layout_fini(&layout);
    }
    ps_model_destroy(model);
}

static void slices_of_a_shard_stay_together(void **state)
{
    static const uint32_t big[] = {2048, 2048, 10};
    ps_model *model = mlp(784, big, 3);
    ps_layout layout;

    (void)state;
    ps_layout_init(&layout, model, 5, false);
    assert_true(layout.slice_count > PS_SHARDS);
    for (uint32_t i = PS_SHARDS; i < layout.slice_count; i++) {
        assert_int_equal(layout.slices[i].server, layout.slices[i - PS_SHARDS].server);
    }
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void more_servers_than_slices_leaves_some_without(void **state)
{
    static const uint32_t tiny[] = {2};
    ps_model *model = mlp(3, tiny, 1);
    ps_layout layout;

    (void)state;
    ps_layout_init(&layout, model, 5, false);
    assert_int_equal(layout.slice_count, 2);
    assert_int_equal(layout.owned_count[0] + layout.owned_count[1], 2);
    assert_int_equal(layout.owned_count[4], 0);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void the_hash_is_of_names_and_shapes_and_of_nothing_else(void **state)
{
    static const uint32_t a[] = {128, 10}, b[] = {10, 128};
    ps_model *one = tutorial(), *two = mlp(784, a, 2), *three = mlp(784, b, 2);
    ps_layout x, y;

    (void)state;
    ps_layout_init(&x, one, 1, false);
    ps_layout_init(&y, one, 4, false);
    assert_true(x.hash == y.hash);
    assert_true(x.hash == UINT64_C(0x53a532e9c42a2ee8)); /* the same for ever */
    ps_layout_fini(&y);
    ps_layout_init(&y, two, 1, false);
    assert_true(x.hash != y.hash);
    ps_layout_fini(&x);
    ps_layout_init(&x, three, 1, false);
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
        cmocka_unit_test(every_slice_is_on_exactly_one_server),
        cmocka_unit_test(servers_are_loaded_alike),
        cmocka_unit_test(slices_of_a_shard_stay_together),
        cmocka_unit_test(more_servers_than_slices_leaves_some_without),
        cmocka_unit_test(the_hash_is_of_names_and_shapes_and_of_nothing_else),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
