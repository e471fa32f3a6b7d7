/* SPDX-License-Identifier: Apache-2.0 */
/* test_placement.c - every slice is on exactly one server, every rank on one process. */
#include "common/placement/placement.h"

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

static void every_slice_is_on_exactly_one_server(void **state)
{
    ps_model *model = tutorial();

    (void)state;
    for (uint32_t servers = 1; servers <= 12; servers++) {
        ps_layout layout;
        ps_placement placement;
        uint32_t seen[64] = {0}, total = 0;

        ps_layout_init(&layout, model, false);
        ps_placement_init(&placement, &layout, servers, 0);
        assert_int_equal(layout.slice_count, 12); /* 7 of dense0.weight, 1 of each other */
        for (uint32_t r = 0; r < servers; r++) {
            assert_true(placement.owned_count[r] > 0);
            for (uint32_t k = 0; k < placement.owned_count[r]; k++) {
                uint32_t i = placement.owned[r][k];

                assert_true(k == 0 || i > placement.owned[r][k - 1]);
                assert_int_equal(placement.server_of[i], r);
                seen[i]++;
                total++;
            }
        }
        assert_int_equal(total, layout.slice_count);
        for (uint32_t i = 0; i < layout.slice_count; i++) {
            assert_int_equal(seen[i], 1);
        }
        ps_placement_fini(&placement);
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
        ps_placement placement;
        size_t least = SIZE_MAX, most = 0;

        ps_layout_init(&layout, model, false);
        ps_placement_init(&placement, &layout, servers, 0);
        for (uint32_t r = 0; r < servers; r++) {
            size_t load = 0;

            for (uint32_t k = 0; k < placement.owned_count[r]; k++) {
                load += layout.slices[placement.owned[r][k]].n;
            }
            least = load < least ? load : least;
            most = load > most ? load : most;
        }
        /* A shard here has at most two slices: no two servers differ by more. */
        assert_true(most - least <= 2 * PS_SLICE_VALUES);
        ps_placement_fini(&placement);
        ps_layout_fini(&layout);
    }
    ps_model_destroy(model);
}

static void slices_of_a_shard_stay_together(void **state)
{
    static const uint32_t big[] = {2048, 2048, 10};
    ps_model *model = mlp(784, big, 3);
    ps_layout layout;
    ps_placement placement;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 5, 0);
    assert_true(layout.slice_count > PS_SHARDS);
    for (uint32_t i = PS_SHARDS; i < layout.slice_count; i++) {
        assert_int_equal(placement.server_of[i], placement.server_of[i - PS_SHARDS]);
    }
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void more_servers_than_slices_leaves_some_without(void **state)
{
    static const uint32_t tiny[] = {2};
    ps_model *model = mlp(3, tiny, 1);
    ps_layout layout;
    ps_placement placement;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 5, 0);
    assert_int_equal(layout.slice_count, 2);
    assert_int_equal(placement.owned_count[0] + placement.owned_count[1], 2);
    assert_int_equal(placement.owned_count[4], 0);
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void shards_without_slices_are_dealt_out_evenly(void **state)
{
    ps_model *model = tutorial(); /* 12 slices: 244 shards have rows only */
    ps_placement placement;
    uint32_t shards[3] = {0};
    ps_layout layout;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 3, 0);
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        shards[placement.server_of_shard[s]]++;
    }
    for (uint32_t r = 0; r < 3; r++) {
        assert_in_range(shards[r], PS_SHARDS / 3, PS_SHARDS / 3 + 1);
    }
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void a_map_from_outside_replaces_the_deal(void **state)
{
    ps_model *model = tutorial();
    uint32_t map[PS_SHARDS] = {0};
    ps_placement placement;
    ps_layout layout;
    ps_status st;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 2, 0);
    st = ps_placement_set_shards(&placement, map, PS_SHARDS - 1);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    map[200] = 2;
    st = ps_placement_set_shards(&placement, map, PS_SHARDS);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text, "server_of_shard[200]: 2; 0 to 1 are allowed");
    assert_true(placement.owned_count[1] > 0); /* nothing has changed */
    map[200] = 1;
    st = ps_placement_set_shards(&placement, map, PS_SHARDS);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(placement.owned_count[0], layout.slice_count);
    assert_int_equal(placement.owned_count[1], 0);
    assert_int_equal(placement.server_of_shard[200], 1);
    assert_int_equal(ps_placement_value_count(&placement, 0), layout.param_count);
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void a_server_s_shards_are_dealt_to_its_threads(void **state)
{
    static const uint32_t big[] = {2048, 2048, 10};
    ps_model *model = mlp(784, big, 3);
    ps_placement placement;
    ps_layout layout;
    ps_status st;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 2, 0);
    assert_int_equal(placement.part_count, 2);
    st = ps_placement_set_threads(&placement, 1, 3);
    assert_true(ps_is_ok(&st));
    assert_int_equal(placement.part_count, 4);
    assert_int_equal(placement.first_part[1], 1);
    assert_int_equal(placement.first_part[2], 4);
    for (uint32_t p = 0; p < 4; p++) {
        const ps_part *part = &placement.parts[p];

        assert_int_equal(part->server, p > 0);
        assert_int_equal(part->thread, p > 0 ? p - 1 : 0);
        /* 357 slices: 179 a server, 60 a thread; a shard has two at most */
        assert_in_range(part->owned_count, p > 0 ? 58 : 177, p > 0 ? 62 : 181);
        for (uint32_t k = 0; k < part->owned_count; k++) {
            uint32_t i = part->owned[k];

            assert_true(k == 0 || i > part->owned[k - 1]);
            assert_int_equal(placement.part_of[i], p);
            assert_int_equal(placement.server_of[i], part->server);
            assert_int_equal(placement.part_of_shard[i % PS_SHARDS], p);
        }
    }
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        assert_int_equal(placement.parts[placement.part_of_shard[s]].server,
                         placement.server_of_shard[s]);
    }
    assert_int_equal(placement.parts[0].owned_count + placement.parts[1].owned_count +
                         placement.parts[2].owned_count + placement.parts[3].owned_count,
                     layout.slice_count);

    st = ps_placement_set_threads(&placement, 1, 0);
    assert_string_equal(st.text, "threads of server 1: 0; 1 to 64 are allowed");
    st = ps_placement_set_threads(&placement, 0, PS_THREADS_MAX + 1);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_placement_set_threads(&placement, 2, 1);
    assert_string_equal(st.text, "server 2 of 2 is not of this job");
    assert_int_equal(placement.part_count, 4); /* nothing has changed */
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void each_server_has_copies_of_the_one_before(void **state)
{
    ps_model *model = tutorial();
    ps_placement placement;
    ps_layout layout;
    ps_status st;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 1, 0);
    ps_placement_copy(&placement);
    assert_false(placement.has_copies); /* there is no other server */
    ps_placement_fini(&placement);

    ps_placement_init(&placement, &layout, 3, 0);
    ps_placement_copy(&placement);
    st = ps_placement_set_threads(&placement, 1, 2);
    assert_true(ps_is_ok(&st));
    assert_int_equal(placement.first_part[3], 4);
    assert_int_equal(placement.part_count, 8);
    /* a copy of each part, also where the server that has it has other threads than its owner */
    for (uint32_t p = 0; p < 4; p++) {
        uint32_t at = ps_placement_copy_of(&placement, p);
        const ps_part *of = &placement.parts[p], *copy = &placement.parts[at];

        assert_int_equal(at, 4 + p);
        assert_true(copy->is_copy && !of->is_copy);
        assert_int_equal(ps_placement_original(&placement, at), p);
        assert_int_equal(ps_placement_original(&placement, p), p);
        assert_int_equal(copy->server, (of->server + 1) % 3);
        assert_int_equal(ps_placement_copied(&placement, copy->server), of->server);
        assert_int_equal(copy->thread, of->thread);
        assert_int_equal(copy->owned_count, of->owned_count);
        assert_memory_equal(copy->owned, of->owned, of->owned_count * sizeof *of->owned);
    }
    for (uint32_t r = 0; r < 3; r++) {
        uint32_t count = ps_placement_held_count(&placement, r);

        assert_int_equal(count, placement.owned_count[r] + placement.owned_count[(r + 2) % 3]);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t slice = ps_placement_held(&placement, r, k);

            assert_true(placement.server_of[slice] == r ||
                        placement.server_of[slice] == (r + 2) % 3);
            assert_true(k == 0 || slice > ps_placement_held(&placement, r, k - 1));
        }
    }
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

static void ranks_with_equal_ids_are_on_one_process(void **state)
{
    ps_model *model = tutorial();
    ps_placement placement;
    ps_layout layout;
    ps_status st;

    (void)state;
    ps_layout_init(&layout, model, false);
    ps_placement_init(&placement, &layout, 1, 3);
    st = ps_placement_set_rank(&placement, 0, "a", "host:1");
    assert_true(ps_is_ok(&st));
    st = ps_placement_set_rank(&placement, 2, "b", "host:2");
    assert_true(ps_is_ok(&st));
    st = ps_placement_set_rank(&placement, 1, "a", "host:2");
    assert_string_equal(st.text, "rank 1: a listens at two addresses");
    st = ps_placement_set_rank(&placement, 1, "a", "host:1");
    assert_true(ps_is_ok(&st));
    assert_int_equal(placement.process_count, 2);
    assert_ptr_equal(ps_placement_process(&placement, 0), ps_placement_process(&placement, 1));
    assert_string_equal(ps_placement_process(&placement, 2)->address, "host:2");

    st = ps_placement_set_rank(&placement, 1, "a", "host:1");
    assert_string_equal(st.text, "rank 1 of 3 is placed twice");
    st = ps_placement_set_rank(&placement, 3, "a", "host:1");
    assert_string_equal(st.text, "rank 3 of 3 is not of this job");
    st = ps_placement_set_server(&placement, 0, "", "host:3");
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_placement_set_server(&placement, 0, "s", "host:3");
    assert_true(ps_is_ok(&st));
    st = ps_placement_set_server(&placement, 0, "s", "host:3");
    assert_string_equal(st.text, "server 0 of 1 is placed twice");
    ps_placement_fini(&placement);
    ps_layout_fini(&layout);
    ps_model_destroy(model);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_is_on_exactly_one_server),
        cmocka_unit_test(servers_are_loaded_alike),
        cmocka_unit_test(slices_of_a_shard_stay_together),
        cmocka_unit_test(more_servers_than_slices_leaves_some_without),
        cmocka_unit_test(shards_without_slices_are_dealt_out_evenly),
        cmocka_unit_test(a_map_from_outside_replaces_the_deal),
        cmocka_unit_test(a_server_s_shards_are_dealt_to_its_threads),
        cmocka_unit_test(each_server_has_copies_of_the_one_before),
        cmocka_unit_test(ranks_with_equal_ids_are_on_one_process),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
