/* SPDX-License-Identifier: Apache-2.0 */
/* test_optim_rows.c - the sparse-row form of every optimizer beside a twin that
 * keeps each row, weights and state, as a small dense variable of its own.
 */
#include "common/base/draw.h"
#include "common/optim/optim.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <string.h>

static const uint64_t seed = 20261120;

enum { R = 41, D = 7, N = R * D, SLOTS_MAX = 2, STEPS = 40 };

typedef struct twin_row {
    float w[D], state[SLOTS_MAX * D];
} twin_row;

typedef struct world {
    float w[N], state[SLOTS_MAX * N];
    twin_row twin[R];
    uint32_t id[R];
    float g[N], d[N]; /* packed (count, D) */
    ps_rows rows;
} world;

/* Weights are draws. */
static void start(world *at)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);

    memset(at, 0, sizeof *at);
    for (size_t i = 0; i < N; i++) {
        at->w[i] = (float)(2.0 * ps_draw_unit(key, i) - 1.0);
        at->twin[i / D].w[i % D] = at->w[i];
    }
}

/* About a fifth of the rows, gradients of many magnitudes; none in every ninth step. */
static void touch(world *at, uint64_t t)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 1, t, 0);
    size_t count = 0;

    for (uint32_t r = 0; r < R; r++) {
        if (t % 9 != 0 && ps_draw_below(key, r, 5) == 0) {
            at->id[count++] = r;
        }
    }
    for (size_t i = 0; i < count * D; i++) {
        double u = 2.0 * ps_draw_unit(key, R + i) - 1.0;

        at->g[i] = i % 11 == 0 ? 0.0f : (float)(u * pow(10.0, -(double)(i % 6)));
    }
    at->rows = (ps_rows){.id = at->id, .count = count, .width = D};
}

static void step_twin(const ps_optim *optim, const ps_params *params, uint64_t t, world *at)
{
    for (size_t r = 0; r < at->rows.count; r++) {
        twin_row *row = &at->twin[at->id[r]];

        optim->step(params, t, at->g + r * D, row->w, row->state, row->w, D);
    }
}

static void compare_twin(const ps_optim *optim, const world *at)
{
    for (size_t r = 0; r < R; r++) {
        assert_memory_equal(at->w + r * D, at->twin[r].w, D * sizeof(float));
        for (unsigned k = 0; k < optim->slots; k++) {
            assert_memory_equal(at->state + k * N + r * D, at->twin[r].state + k * D,
                                D * sizeof(float));
        }
    }
}

static void check_twin(const ps_optim *optim, void *arg)
{
    static world at;
    ps_params params = ps_params_default(optim->params);

    (*(size_t *)arg)++;
    start(&at);
    for (uint64_t t = 1; t <= STEPS; t++) {
        touch(&at, t);
        optim->step_rows(&params, t, &at.rows, at.g, at.state, at.w, N);
        step_twin(optim, &params, t, &at);
        compare_twin(optim, &at);
    }
}

static void every_optimizer_steps_touched_rows_as_small_dense_variables(void **state)
{
    size_t count = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    ps_optim_each(check_twin, &count);
    assert_true(count >= 9);
}

static void check_increment(const ps_optim *optim, void *arg)
{
    static world stepped, counted;
    ps_params params = ps_params_default(optim->params);

    (void)arg;
    start(&stepped);
    start(&counted);
    for (uint64_t t = 1; t <= STEPS; t++) {
        bool in_place = t % 2 == 0;
        float *d = in_place ? counted.g : counted.d;

        touch(&stepped, t);
        touch(&counted, t);
        optim->step_rows(&params, t, &stepped.rows, stepped.g, stepped.state, stepped.w, N);
        optim->increment_rows(&params, t, &counted.rows, counted.g, counted.w, counted.state, d, N);
        for (size_t i = 0; i < counted.rows.count * D; i++) {
            counted.w[counted.id[i / D] * D + i % D] -= d[i];
        }
        assert_memory_equal(stepped.w, counted.w, sizeof stepped.w);
        assert_memory_equal(stepped.state, counted.state, sizeof stepped.state);
    }
}

static void increments_of_rows_have_the_bits_of_their_steps(void **state)
{
    (void)state;
    ps_optim_each(check_increment, NULL);
}

/* The dense form on a gradient with zeros where nothing was touched. */
static void check_rest(const ps_optim *optim, void *arg)
{
    static world rows, dense;
    static float g[N];
    ps_params params = ps_params_default(optim->params);
    bool equal;

    (void)arg;
    start(&rows);
    start(&dense);
    for (uint64_t t = 1; t <= STEPS; t++) {
        touch(&rows, t);
        memset(g, 0, sizeof g);
        for (size_t r = 0; r < rows.rows.count; r++) {
            memcpy(g + rows.id[r] * D, rows.g + r * D, D * sizeof(float));
        }
        optim->step_rows(&params, t, &rows.rows, rows.g, rows.state, rows.w, N);
        optim->step(&params, t, g, dense.w, dense.state, dense.w, N);
    }
    equal = memcmp(rows.w, dense.w, sizeof rows.w) == 0 &&
            memcmp(rows.state, dense.state, sizeof rows.state) == 0;
    if (equal != optim->rests_at_zero) {
        fail_msg("%s: rows and dense are %s", optim->name, equal ? "equal" : "different");
    }
}

static void rules_that_rest_at_zero_and_no_others_equal_their_dense_form(void **state)
{
    (void)state;
    ps_optim_each(check_rest, NULL);
}

static void check_alone(const ps_optim *optim, void *arg)
{
    static world at;
    ps_params params = ps_params_default(optim->params);

    (void)arg;
    start(&at);
    touch(&at, 1);
    assert_true(at.rows.count > 1 && at.rows.count < R);
    for (size_t i = 0, r = 0; i < N; i++) {
        r += i % D == 0 && i > 0 && r < at.rows.count && at.id[r] == i / D - 1;
        if (r == at.rows.count || at.id[r] != i / D) {
            at.w[i] = NAN;
            at.state[i] = at.state[N + i] = NAN;
        }
    }
    optim->step_rows(&params, 1, &at.rows, at.g, at.state, at.w, N);
    step_twin(optim, &params, 1, &at);
    for (size_t r = 0, touched = 0; r < R; r++) {
        bool is_touched = touched < at.rows.count && at.id[touched] == r;

        touched += is_touched;
        for (size_t j = 0; j < D; j++) {
            assert_true(isnan(at.w[r * D + j]) == !is_touched);
            assert_true(!is_touched || at.w[r * D + j] == at.twin[r].w[j]);
        }
    }
}

static void rows_that_are_not_touched_are_neither_read_nor_written(void **state)
{
    (void)state;
    ps_optim_each(check_alone, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_steps_touched_rows_as_small_dense_variables),
        cmocka_unit_test(increments_of_rows_have_the_bits_of_their_steps),
        cmocka_unit_test(rules_that_rest_at_zero_and_no_others_equal_their_dense_form),
        cmocka_unit_test(rows_that_are_not_touched_are_neither_read_nor_written),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
