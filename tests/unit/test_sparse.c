/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse.c - tables of which a batch touches few rows; ids that are none; where a
 * number first was not finite.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/network.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 20261122;

enum { ROWS = 500, IDS = 3, NUMBERS = 2, IN = NUMBERS + IDS, BATCH = 8 };

/* wide_deep: slices, an embedding, a residual sum. */
typedef struct world {
    ps_model *model;
    size_t count, table; /* values of all parameters, number of the table among them */
    float *w, *g, x[BATCH * IN], classes[BATCH];
} world;

static void draw_batch(world *at, uint64_t number)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, number, 0, 0);

    for (size_t i = 0; i < BATCH * IN; i++) {
        at->x[i] = i % IN < NUMBERS ? (float)ps_draw_unit(key, i)
                                    : (float)ps_draw_below(key, i, i % 2 == 0 ? ROWS : 5);
    }
    for (size_t i = 0; i < BATCH; i++) {
        at->classes[i] = (float)(i % 2);
    }
}

static void world_init(world *at)
{
    const ps_network *network = ps_network_find("wide_deep");
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    ps_network_facts facts = {
        .features = IN, .ids = IDS, .vocabulary = ROWS, .classes = 2, .outputs = 2};
    ps_params params = ps_params_default(network->params);
    size_t count;
    ps_status st;

    params.v[1] = 6; /* units */
    st = ps_network_specs(network, &facts, &params, specs, &count);
    assert_true(ps_is_ok(&st));
    st = ps_model_create(specs, count, (ps_shape){1, {IN}}, ps_loss_find(network->loss), BATCH,
                         &at->model);
    assert_true(ps_is_ok(&st));
    free(specs);
    at->count = ps_model_param_count(at->model);
    at->w = ps_xcalloc(at->count, sizeof *at->w);
    at->g = ps_xcalloc(at->count, sizeof *at->g);
    ps_model_init(at->model, seed, at->w);
    at->table = 0;
    while (!ps_model_variable(at->model, at->table)->is_sparse) {
        at->table++;
    }
    draw_batch(at, 0);
}

static void world_fini(world *at)
{
    ps_model_destroy(at->model);
    free(at->w);
    free(at->g);
}

static ps_score train(world *at, bool accumulate, float *g)
{
    ps_score score = {0};

    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), BATCH, 1.0f,
                   accumulate, g, NULL, &score);
    return score;
}

/* The rows told are those of the flags, and no other row has a gradient. */
static void compare_rows(world *at, const uint8_t *flags)
{
    const ps_variable *table = ps_model_variable(at->model, at->table);
    size_t count, next = 0, width = table->shape.dim[1];
    const uint32_t *row = ps_model_rows(at->model, at->table, &count);

    assert_non_null(row);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (size_t j = 0; flags[r] == 0 && j < width; j++) {
            assert_true(at->g[table->at + r * width + j] == 0.0f);
        }
        if (flags[r] != 0) {
            assert_true(next < count);
            assert_int_equal(row[next++], r);
        }
    }
    assert_int_equal(next, count);
}

static void flag(const world *at, uint8_t *flags)
{
    for (size_t i = 0; i < BATCH * IN; i++) {
        if (i % IN >= NUMBERS) {
            flags[(size_t)at->x[i]] = 1;
        }
    }
}

static void the_rows_of_a_batch_are_told_and_no_other_has_a_gradient(void **state)
{
    uint8_t flags[ROWS] = {0};
    size_t count = 1;
    world at;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    world_init(&at);
    assert_null(ps_model_rows(at.model, at.table + 1, &count));
    assert_int_equal(count, 0);
    memset(at.g, 0xff, at.count * sizeof *at.g); /* cleared as a whole: nothing was promised */
    train(&at, false, at.g);
    flag(&at, flags);
    compare_rows(&at, flags);
    draw_batch(&at, 1);
    train(&at, true, at.g); /* adds its own */
    flag(&at, flags);
    compare_rows(&at, flags);
    memset(flags, 0, sizeof flags);
    train(&at, false, at.g);
    flag(&at, flags);
    compare_rows(&at, flags);
    world_fini(&at);
}

/* Many batches, some of them accumulated, the one way and the other. */
static void clearing_touched_rows_alone_gives_the_same_gradients(void **state)
{
    float *dense;
    world at;

    (void)state;
    world_init(&at);
    dense = ps_xcalloc(at.count, sizeof *dense);
    for (uint64_t turn = 0; turn < 20; turn++) {
        draw_batch(&at, turn);
        ps_model_keep_rows(at.model, false);
        train(&at, false, dense);
        draw_batch(&at, turn + 100);
        train(&at, true, dense);
        world_fini(&at); /* a model of its own for each way: what it keeps is not shared */
        world_init(&at);
    }
    ps_model_keep_rows(at.model, true);
    for (uint64_t turn = 0; turn < 20; turn++) {
        draw_batch(&at, turn);
        train(&at, false, at.g);
        draw_batch(&at, turn + 100);
        train(&at, true, at.g);
    }
    assert_memory_equal(dense, at.g, at.count * sizeof *dense);
    free(dense);
    world_fini(&at);
}

static void a_kept_gradient_is_cleared_nowhere_else(void **state)
{
    const ps_variable *table;
    world at;

    (void)state;
    world_init(&at);
    table = ps_model_variable(at.model, at.table);
    ps_model_keep_rows(at.model, true);
    at.x[NUMBERS] = 7;
    for (size_t i = 0; i < BATCH * IN; i++) {
        at.x[i] = i % IN < NUMBERS ? at.x[i] : 7;
    }
    train(&at, false, at.g);
    at.g[table->at + 8 * table->shape.dim[1]] = 3.0f; /* the promise is broken */
    train(&at, false, at.g);
    assert_true(at.g[table->at + 8 * table->shape.dim[1]] == 3.0f);
    ps_model_keep_rows(at.model, false);
    train(&at, false, at.g);
    assert_true(at.g[table->at + 8 * table->shape.dim[1]] == 0.0f);
    world_fini(&at);
}

static void an_id_that_is_no_row_is_named_and_harms_nothing(void **state)
{
    static const float wrong[] = {-1, ROWS, 0.5f, NAN, INFINITY, -INFINITY, 1e30f};
    uint8_t flags[ROWS];
    float *clean;
    world at;

    (void)state;
    world_init(&at);
    clean = ps_xcalloc(at.count, sizeof *clean);
    memcpy(clean, at.w, at.count * sizeof *clean);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ps_score score;
        ps_status st;

        draw_batch(&at, i);
        at.x[2 * IN + NUMBERS + 1] = wrong[i];
        score = train(&at, false, at.g);
        assert_true(isnan(score.loss_sum));
        st = ps_model_find_nonfinite(at.model, at.w, at.x, BATCH);
        if (isfinite(wrong[i])) {
            assert_int_equal(st.code, PS_INVALID_ARGUMENT);
            assert_non_null(strstr(st.text, "(embedding): sample 2: id "));
            assert_non_null(strstr(st.text, "0 to 499 are allowed"));
        } else {
            assert_int_equal(st.code, PS_INTERNAL);
            assert_non_null(strstr(st.text, "value 3 of sample 2 of the input is "));
        }
        memset(flags, 0, sizeof flags);
        at.x[2 * IN + NUMBERS + 1] = at.x[NUMBERS];
        flag(&at, flags);
        compare_rows(&at, flags);
    }
    memcpy(at.w, clean, at.count * sizeof *clean);
    draw_batch(&at, 0);
    assert_true(isfinite(train(&at, false, at.g).loss_sum));
    free(clean);
    world_fini(&at);
}

static void the_first_that_is_not_finite_is_named(void **state)
{
    const ps_variable *deep = NULL;
    world at;
    ps_status st;

    (void)state;
    world_init(&at);
    train(&at, false, at.g);
    st = ps_model_find_nonfinite(at.model, at.w, at.x, BATCH);
    assert_true(ps_is_ok(&st));
    for (size_t v = 0; v < ps_model_variable_count(at.model); v++) {
        if (strcmp(ps_model_variable(at.model, v)->name, "deep2.weight") == 0) {
            deep = ps_model_variable(at.model, v);
        }
    }
    assert_non_null(deep);
    at.w[deep->at + 5] = INFINITY;
    train(&at, false, at.g);
    st = ps_model_find_nonfinite(at.model, at.w, at.x, BATCH);
    assert_int_equal(st.code, PS_INTERNAL);
    assert_string_equal(st.text, "value 5 of deep2.weight is inf");
    for (size_t i = 0; i < deep->size; i++) {
        at.w[deep->at + i] = 3e38f; /* finite, and sums of it are not */
    }
    at.x[0] = 1e6f;
    train(&at, false, at.g);
    st = ps_model_find_nonfinite(at.model, at.w, at.x, BATCH);
    assert_int_equal(st.code, PS_INTERNAL);
    assert_non_null(strstr(st.text, "(deep2): output "));
    world_fini(&at);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_of_a_batch_are_told_and_no_other_has_a_gradient),
        cmocka_unit_test(clearing_touched_rows_alone_gives_the_same_gradients),
        cmocka_unit_test(a_kept_gradient_is_cleared_nowhere_else),
        cmocka_unit_test(an_id_that_is_no_row_is_named_and_harms_nothing),
        cmocka_unit_test(the_first_that_is_not_finite_is_named),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
