/* SPDX-License-Identifier: Apache-2.0 */
/* test_optim.c - what every optimizer of the list must do, and what sgd and adam are. */
#include "common/base/draw.h"
#include "common/optim/optim.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <float.h>
#include <string.h>

static const uint64_t seed = 20240604;

enum { N = 1003, SLOTS_MAX = 4, STEPS = 50 };

typedef struct world {
    float g[N], w[N], state[SLOTS_MAX * N];
} world;

/* The gradient of step t: magnitudes from 1e-6 to 1, every seventh value zero. */
static void draw_gradient(uint64_t t, float *g)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, t, 0, 0);

    for (size_t i = 0; i < N; i++) {
        double u = 2.0 * ps_draw_unit(key, i) - 1.0;

        g[i] = i % 7 == 0 ? 0.0f : (float)(u * pow(10.0, -(double)(i % 6)));
    }
}

static void start(world *at)
{
    memset(at, 0, sizeof *at);
    draw_gradient(1000, at->w);
}

static void check_facts(const ps_optim *optim, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_optim_find(optim->name), optim);
    assert_true(strlen(optim->summary) > 0);
    assert_true(optim->slots <= SLOTS_MAX);
    assert_string_equal(optim->params[0].name, "lr");
    for (const ps_param *p = optim->params; p->name != NULL; p++) {
        assert_true(p->min <= p->value && p->value <= p->max && p->help != NULL);
    }
}

static void every_optimizer_is_found_by_its_name_and_starts_with_its_rate(void **state)
{
    size_t count = 0;

    (void)state;
    ps_optim_each(check_facts, &count);
    assert_int_equal(count, 9);
    assert_null(ps_optim_find("adamax"));
}

static void check_step(const ps_optim *optim, void *arg)
{
    static world stepped, counted, kept;
    ps_params params = ps_params_default(optim->params);
    float d[N], to[N];

    (void)arg;
    start(&stepped);
    start(&counted);
    start(&kept);
    for (uint64_t t = 1; t <= STEPS; t++) {
        draw_gradient(t, kept.g);
        if (t % 2 == 0) {
            optim->step(&params, t, kept.g, kept.w, kept.state, to, N);
        } else { /* over the gradient */
            optim->step(&params, t, kept.g, kept.w, kept.state, kept.g, N);
            memcpy(to, kept.g, sizeof to);
        }
        assert_memory_equal(kept.w, stepped.w, sizeof kept.w); /* left as they are */
        memcpy(kept.w, to, sizeof kept.w);
        draw_gradient(t, stepped.g);
        optim->step(&params, t, stepped.g, stepped.w, stepped.state, stepped.w, N);
        draw_gradient(t, counted.g);
        if (t % 2 == 0) {
            optim->increment(&params, t, counted.g, counted.w, counted.state, d, N);
        } else { /* in place */
            optim->increment(&params, t, counted.g, counted.w, counted.state, counted.g, N);
            memcpy(d, counted.g, sizeof d);
        }
        for (size_t i = 0; i < N; i++) {
            counted.w[i] -= d[i];
        }
        assert_memory_equal(stepped.w, counted.w, sizeof stepped.w);
        assert_memory_equal(stepped.state, counted.state, sizeof stepped.state);
        assert_memory_equal(stepped.w, kept.w, sizeof stepped.w);
        assert_memory_equal(stepped.state, kept.state, sizeof stepped.state);
    }
}

static void every_step_has_the_bits_of_an_increment_and_a_subtraction(void **state)
{
    (void)state;
    ps_optim_each(check_step, NULL);
}

/* Steps the slice [from, to) alone, its state packed as for n = to - from. */
static void step_slice(const ps_optim *optim, uint64_t t, world *at, size_t from, size_t to)
{
    ps_params params = ps_params_default(optim->params);
    float slots[SLOTS_MAX * N];
    size_t n = to - from;

    for (unsigned k = 0; k < optim->slots; k++) {
        memcpy(slots + k * n, at->state + k * N + from, n * sizeof(float));
    }
    optim->step(&params, t, at->g + from, at->w + from, slots, at->w + from, n);
    for (unsigned k = 0; k < optim->slots; k++) {
        memcpy(at->state + k * N + from, slots + k * n, n * sizeof(float));
    }
}

static void check_split(const ps_optim *optim, void *arg)
{
    static world whole, parts;
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 2000, 0, 0);

    (void)arg;
    start(&whole);
    start(&parts);
    for (uint64_t t = 1; t <= STEPS; t++) {
        size_t a = (size_t)ps_draw_below(key, 2 * t, N), b = (size_t)ps_draw_below(key, t, N);

        draw_gradient(t, whole.g);
        draw_gradient(t, parts.g);
        step_slice(optim, t, &whole, 0, N);
        step_slice(optim, t, &parts, 0, a < b ? a : b);
        step_slice(optim, t, &parts, a < b ? a : b, a < b ? b : a);
        step_slice(optim, t, &parts, a < b ? b : a, N);
        assert_memory_equal(whole.w, parts.w, sizeof whole.w);
    }
}

static void any_split_of_a_vector_gives_the_same_bits(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    ps_optim_each(check_split, NULL);
}

static void check_zero(const ps_optim *optim, void *arg)
{
    static world at, before;
    ps_params params = ps_params_default(optim->params);
    int decay = ps_param_find(optim->params, "weight_decay");

    (void)arg;
    if (decay >= 0) { /* would move weights without any gradient */
        params.v[decay] = 0;
    }
    start(&at);
    start(&before);
    for (uint64_t t = 1; t <= 3; t++) {
        optim->step(&params, t, at.g, at.w, at.state, at.w, N);
    }
    assert_memory_equal(&at, &before, sizeof at);
}

static void a_gradient_of_zero_moves_nothing(void **state)
{
    (void)state;
    ps_optim_each(check_zero, NULL);
}

static void check_direction(const ps_optim *optim, void *arg)
{
    ps_params params = ps_params_default(optim->params);
    float g[2] = {0.5f, -0.5f}, w[2] = {0}, slots[2 * SLOTS_MAX] = {0};

    (void)arg;
    for (uint64_t t = 1; t <= 3; t++) {
        float before = w[0];

        optim->step(&params, t, g, w, slots, w, 2);
        assert_true(w[0] < before && w[1] == -w[0]);
    }
}

static void every_step_is_against_the_gradient_and_odd_in_it(void **state)
{
    (void)state;
    ps_optim_each(check_direction, NULL);
}

static void check_starved(const ps_optim *optim, void *arg)
{
    ps_params params = ps_params_default(optim->params);
    float g[2] = {1e-4f, 1e-18f}, d[2], w[2] = {0}, slots[2 * SLOTS_MAX] = {0};
    uint64_t t = 1;

    (void)arg;
    optim->increment(&params, t++, g, w, slots, d, 2);
    g[0] = g[1] = 0.0f;
    for (; t < 50000; t++) {
        optim->increment(&params, t, g, w, slots, d, 2);
        for (size_t i = 0; i < 2 * optim->slots; i++) {
            assert_true(slots[i] == 0.0f || fabsf(slots[i]) >= FLT_MIN);
        }
        assert_true(isfinite(d[0]) && isfinite(d[1]));
    }
}

static void no_state_becomes_subnormal(void **state)
{
    (void)state;
    ps_optim_each(check_starved, NULL);
}

static void sgd_goes_down_the_gradient(void **state)
{
    const ps_optim *sgd = ps_optim_find("sgd");
    ps_params params = ps_params_default(sgd->params);
    float g[3] = {1, -2, 0.5f}, w[3] = {1, 1, 1};

    (void)state;
    assert_true(params.v[0] == 0.01);
    params.v[0] = 0.25;
    sgd->step(&params, 1, g, w, NULL, w, 3);
    assert_true(w[0] == 0.75f && w[1] == 1.5f && w[2] == 0.875f);
}

static void adam_follows_its_paper_in_double(void **state)
{
    static world at;
    static double m[N], v[N], w[N];
    const ps_optim *adam = ps_optim_find("adam");
    ps_params params = ps_params_default(adam->params);

    (void)state;
    assert_true(params.v[0] == 0.001 && params.v[1] == 0.9);
    assert_true(params.v[2] == 0.999 && params.v[3] == 1e-8);
    start(&at);
    for (size_t i = 0; i < N; i++) {
        w[i] = (double)at.w[i];
    }
    for (uint64_t t = 1; t <= 10 * STEPS; t++) {
        draw_gradient(t, at.g);
        adam->step(&params, t, at.g, at.w, at.state, at.w, N);
        for (size_t i = 0; i < N; i++) {
            double g = (double)at.g[i];

            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            w[i] -= 0.001 * (m[i] / (1 - pow(0.9, (double)t))) /
                    (sqrt(v[i] / (1 - pow(0.999, (double)t))) + 1e-8);
            /* Each step may add the rounding of a weight of up to 1, 2^-24, and of d. */
            assert_true(is_close((double)at.w[i], w[i], 1e-7 * (double)t, "w", i));
        }
    }
}

static void adam_s_first_step_is_the_rate_whatever_the_scale(void **state)
{
    const ps_optim *adam = ps_optim_find("adam");
    ps_params params = ps_params_default(adam->params);
    float g[4] = {1e3f, -1.0f, 1e-3f, -1e-5f}, d[4], w[4] = {0}, slots[8] = {0};

    (void)state;
    adam->increment(&params, 1, g, w, slots, d, 4);
    for (size_t i = 0; i < 4; i++) {
        double want = 0.001 * (double)g[i] / (fabs((double)g[i]) + 1e-8);

        assert_true(is_close((double)d[i], want, 1e-9, "d", i));
    }
}

static void adam_s_moments_die_out_instead_of_becoming_subnormal(void **state)
{
    const ps_optim *adam = ps_optim_find("adam");
    ps_params params = ps_params_default(adam->params);
    float g[2] = {1e-4f, 1e-18f}, d[2], w[2] = {0}, slots[4] = {0};
    uint64_t t = 1;

    (void)state;
    adam->increment(&params, t++, g, w, slots, d, 2);
    g[0] = g[1] = 0.0f;
    for (; t < 200000; t++) {
        adam->increment(&params, t, g, w, slots, d, 2);
        for (size_t i = 0; i < 4; i++) {
            assert_true(slots[i] == 0.0f || fabsf(slots[i]) >= FLT_MIN);
        }
        assert_true(isfinite(d[0]) && isfinite(d[1]));
    }
    assert_true(slots[0] == 0.0f && slots[1] == 0.0f && slots[2] == 0.0f && slots[3] == 0.0f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_is_found_by_its_name_and_starts_with_its_rate),
        cmocka_unit_test(every_step_has_the_bits_of_an_increment_and_a_subtraction),
        cmocka_unit_test(any_split_of_a_vector_gives_the_same_bits),
        cmocka_unit_test(a_gradient_of_zero_moves_nothing),
        cmocka_unit_test(every_step_is_against_the_gradient_and_odd_in_it),
        cmocka_unit_test(no_state_becomes_subnormal),
        cmocka_unit_test(sgd_goes_down_the_gradient),
        cmocka_unit_test(adam_follows_its_paper_in_double),
        cmocka_unit_test(adam_s_first_step_is_the_rate_whatever_the_scale),
        cmocka_unit_test(adam_s_moments_die_out_instead_of_becoming_subnormal),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
