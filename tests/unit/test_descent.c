/* SPDX-License-Identifier: Apache-2.0 */
/* test_descent.c - schedules, penalties and clipping around every optimizer. */
#include "common/base/draw.h"
#include "common/optim/clip.h"
#include "common/optim/descent.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <string.h>

static const uint64_t seed = 20261122;

enum { R = 19, D = 6, N = R * D, SLOTS_MAX = 2, STEPS = 30 };

typedef struct world {
    float g[N], w[N], state[SLOTS_MAX * N], scratch[N];
} world;

static void draw(uint64_t t, float *x)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, t, 0, 0);

    for (size_t i = 0; i < N; i++) {
        x[i] = i % 7 == 0 ? 0.0f : (float)(2.0 * ps_draw_unit(key, i) - 1.0);
    }
}

static void start(world *at)
{
    memset(at, 0, sizeof *at);
    draw(1000, at->w);
}

static ps_descent descent_of(const ps_optim *optim, double l1, double l2)
{
    ps_descent d = {.optim = optim,
                    .params = ps_params_default(optim->params),
                    .schedule = ps_schedule_find("cosine"),
                    .total_steps = STEPS,
                    .l1 = l1,
                    .l2 = l2};

    d.schedule_params = ps_params_default(d.schedule->params);
    d.schedule_params.v[PS_WARMUP] = 4;
    return d;
}

/* A moment whose three parts differ. */
static ps_moment moment_of(uint64_t t)
{
    return (ps_moment){.t = t + 3, .step = t - 1, .share = 0.25};
}

/* What descent.h says, in as many words: the twin of a step. */
static void step_by_hand(const ps_descent *d, ps_moment m, world *at)
{
    ps_params params = d->params;
    float l1 = (float)(d->l1 * m.share), l2 = (float)(d->l2 * m.share);

    params.v[0] *= ps_schedule_factor(d->schedule, &d->schedule_params, m.step, d->total_steps);
    for (size_t i = 0; i < N; i++) {
        float sign = (float)((at->w[i] > 0) - (at->w[i] < 0));

        at->g[i] += l2 * at->w[i] + l1 * sign;
    }
    d->optim->step(&params, m.t, at->g, at->w, at->state, at->w, N);
}

static void check_step(const ps_optim *optim, void *arg)
{
    static world got, want, counted;
    ps_descent d = descent_of(optim, 0.01, 0.1);

    (void)arg;
    start(&got);
    start(&want);
    start(&counted);
    for (uint64_t t = 1; t <= STEPS; t++) {
        ps_moment m = moment_of(t);

        draw(t, got.g);
        draw(t, want.g);
        draw(t, counted.g);
        ps_descent_step(&d, m, got.g, t % 2 == 0 ? got.g : got.scratch, got.w, got.state, got.w, N);
        ps_descent_increment(&d, m, counted.g, counted.w, counted.state, counted.g, N);
        for (size_t i = 0; i < N; i++) {
            counted.w[i] -= counted.g[i];
        }
        step_by_hand(&d, m, &want);
        assert_memory_equal(got.w, want.w, sizeof got.w);
        assert_memory_equal(got.state, want.state, sizeof got.state);
        assert_memory_equal(counted.w, want.w, sizeof got.w);
    }
}

static void penalties_join_the_gradient_and_the_schedule_scales_the_rate(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    ps_optim_each(check_step, NULL);
}

static void check_plain(const ps_optim *optim, void *arg)
{
    static world got, want;
    ps_descent d = {.optim = optim, .params = ps_params_default(optim->params)};
    const float *untouched = got.scratch;

    (void)arg;
    start(&got);
    start(&want);
    for (uint64_t t = 1; t <= STEPS; t++) {
        draw(t, got.g);
        ps_descent_step(&d, moment_of(t), got.g, got.scratch, got.w, got.state, got.w, N);
        optim->step(&d.params, t + 3, got.g, want.w, want.state, want.w, N);
        assert_memory_equal(got.w, want.w, sizeof got.w);
        assert_true(untouched[1] == 0.0f);
    }
    assert_true(ps_descent_rate(&d, 12345) == d.params.v[0]);
    d.halvings = 3;
    assert_true(ps_descent_rate(&d, 12345) == d.params.v[0] / 8);
}

static void without_them_it_is_the_rule_to_the_bit(void **state)
{
    (void)state;
    ps_optim_each(check_plain, NULL);
}

/* Rows beside the dense form of each row alone. */
static void check_rows(const ps_optim *optim, void *arg)
{
    static world got, counted;
    static float twin_w[R][D], twin_state[R][SLOTS_MAX * D];
    static const uint32_t id[] = {1, 2, 7, 18};
    const ps_rows rows = {.id = id, .count = 4, .width = D};
    ps_descent d = descent_of(optim, 0.01, 0.1);

    (void)arg;
    start(&got);
    start(&counted);
    memcpy(twin_w, got.w, sizeof got.w);
    memset(twin_state, 0, sizeof twin_state);
    for (uint64_t t = 1; t <= STEPS; t++) {
        ps_moment m = moment_of(t);
        float scratch[D];

        draw(t, got.g);
        draw(t, counted.g);
        for (size_t r = 0; r < 4; r++) {
            ps_descent_step(&d, m, got.g + r * D, scratch, twin_w[id[r]], twin_state[id[r]],
                            twin_w[id[r]], D);
        }
        ps_descent_step_rows(&d, m, &rows, got.g, got.scratch, got.state, got.w, N);
        ps_descent_increment_rows(&d, m, &rows, counted.g, counted.w, counted.state, counted.g, N);
        for (size_t i = 0; i < 4 * D; i++) {
            counted.w[id[i / D] * D + i % D] -= counted.g[i];
        }
        assert_memory_equal(got.w, twin_w, sizeof got.w);
        assert_memory_equal(got.w, counted.w, sizeof got.w);
    }
}

static void penalties_of_rows_are_for_touched_rows_alone(void **state)
{
    (void)state;
    ps_optim_each(check_rows, NULL);
}

/* K contributions applied one by one take as much penalty as one whole step. */
static void shares_of_a_step_add_up_to_its_penalty(void **state)
{
    const ps_optim *sgd = ps_optim_find("sgd");
    ps_descent d = {.optim = sgd, .params = ps_params_default(sgd->params), .l2 = 0.5, .l1 = 0.25};
    float whole = 2.0f, parts = 2.0f, g = 0.0f, scratch;

    (void)state;
    d.params.v[0] = 1e-3;
    ps_descent_step(&d, (ps_moment){.t = 1, .share = 1}, &g, &scratch, &whole, NULL, &whole, 1);
    for (uint64_t k = 0; k < 4; k++) {
        ps_descent_step(&d, (ps_moment){.t = k + 1, .share = 0.25}, &g, &scratch, &parts, NULL,
                        &parts, 1);
    }
    assert_true(is_close((double)whole, 2.0 - 1e-3 * (0.5 * 2.0 + 0.25), 1e-6, "whole", 0));
    assert_true(is_close((double)parts, (double)whole, 1e-6, "parts", 0));
}

/* ---- Clipping ---- */

static void check_clip(const ps_clip *clip, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_clip_find(clip->name), clip);
    assert_true(strlen(clip->summary) > 0);
    assert_true((clip->unit == PS_CLIP_NOTHING) == (clip->params == NULL));
    assert_true(clip->params == NULL || ps_param_find(clip->params, "limit") == PS_CLIP_LIMIT);
}

static void every_kind_of_clipping_is_found_by_its_name(void **state)
{
    size_t count = 0;

    (void)state;
    ps_clip_each(check_clip, &count);
    assert_int_equal(count, 4);
    assert_null(ps_clip_find("agc"));
}

static void values_are_cut_to_the_limit(void **state)
{
    float g[] = {-3.0f, -0.5f, 0.0f, 0.5f, 0.5000001f, INFINITY, -INFINITY, NAN};

    (void)state;
    ps_clip_values(g, 8, 0.5f);
    assert_true(g[0] == -0.5f && g[1] == -0.5f && g[2] == 0.0f && g[3] == 0.5f && g[4] == 0.5f);
    assert_true(g[5] == 0.5f && g[6] == -0.5f && isnan(g[7]));
}

static void a_norm_above_the_limit_becomes_the_limit(void **state)
{
    static float g[N], was[N];

    (void)state;
    for (uint64_t t = 0; t < 50; t++) {
        size_t n = 1 + (size_t)t % N;
        double sum = 0.0, after = 0.0, limit = t % 2 == 0 ? 0.3 : 1e3;

        draw(t, g);
        memcpy(was, g, sizeof g);
        for (size_t i = 0; i < n; i++) {
            sum += (double)g[i] * (double)g[i];
        }
        assert_true(is_close(ps_clip_square_sum(g, n), sum, 1e-12, "sum", n));
        ps_clip_to_norm(g, n, ps_clip_square_sum(g, n), limit);
        for (size_t i = 0; i < n; i++) {
            double factor = sqrt(sum) > limit ? limit / sqrt(sum) : 1.0;

            after += (double)g[i] * (double)g[i];
            assert_true(is_close((double)g[i], (double)was[i] * factor, 1e-7, "g", i));
        }
        assert_true(sqrt(after) <= limit * (1 + 1e-6));
        assert_memory_equal(g + n, was + n, (N - n) * sizeof *g);
    }
}

static void a_gradient_that_is_not_finite_stays_so(void **state)
{
    float g[3] = {1.0f, NAN, 2.0f}, h[2] = {1.0f, INFINITY};

    (void)state;
    ps_clip_to_norm(g, 3, ps_clip_square_sum(g, 3), 0.1);
    assert_true(g[0] == 1.0f && isnan(g[1]) && g[2] == 2.0f);
    ps_clip_to_norm(h, 2, ps_clip_square_sum(h, 2), 0.1);
    assert_true(isnan(h[1]));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalties_join_the_gradient_and_the_schedule_scales_the_rate),
        cmocka_unit_test(without_them_it_is_the_rule_to_the_bit),
        cmocka_unit_test(penalties_of_rows_are_for_touched_rows_alone),
        cmocka_unit_test(shares_of_a_step_add_up_to_its_penalty),
        cmocka_unit_test(every_kind_of_clipping_is_found_by_its_name),
        cmocka_unit_test(values_are_cut_to_the_limit),
        cmocka_unit_test(a_norm_above_the_limit_becomes_the_limit),
        cmocka_unit_test(a_gradient_that_is_not_finite_stays_so),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
