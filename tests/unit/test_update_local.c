/* SPDX-License-Identifier: Apache-2.0 */
/* test_update_local.c - every method with local steps against its formula as it is
 * published, computed in doubles over parameters, not over what is sent.
 *
 * W workers have quadratic losses of their own: the gradient of worker i at x is
 * slope_i (x - centre_i). Value STATE stands for a layer's state: its decrement is
 * 0.1 (x - centre_i), whatever the method.
 */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/optim/optim.h"
#include "common/update/update.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { W = 4, N = 5, STATE = N - 1, ROUNDS = 12 };

static const double rate = 0.05;

static double slope(uint32_t i, size_t k)
{
    return 0.5 + 0.3 * (double)i + 0.1 * (double)k;
}

static double centre(uint32_t i, size_t k)
{
    return (double)((i * 7 + k * 3) % 5) - 2.0;
}

static double gradient(uint32_t i, size_t k, double x)
{
    return k == STATE ? 0.1 * (x - centre(i, k)) : slope(i, k) * (x - centre(i, k));
}

static double start_value(size_t k)
{
    return 1.0 + (double)k;
}

/* ---- The methods as trainer and servers drive them ---- */

typedef struct fake {
    float x[N], g[N], p[N], slots[PS_LOCAL_SLOTS_MAX * N];
} fake;

typedef struct sim {
    const ps_local *local;
    const ps_update *update;
    ps_params params, outer_params;
    const ps_optim *outer;
    double shares[W]; /* of samples; equal unless set */
    uint64_t seed, clock;
    double rate_sum, last_rate_sum;
    float w[N], outer_state[4 * N];
    fake workers[W];
} sim;

static void sim_init(sim *s, const char *name)
{
    memset(s, 0, sizeof *s);
    s->update = ps_update_find(name);
    assert_non_null(s->update);
    s->local = s->update->local;
    assert_non_null(s->local);
    s->params = ps_params_default(s->update->params);
    s->outer = ps_optim_find(s->local->outer.name);
    assert_non_null(s->outer);
    assert_non_null(ps_optim_find(s->local->inner.name));
    s->outer_params = ps_params_default(s->outer->params);
    for (size_t i = 0; i < 2 && s->local->outer.number[i].key != NULL; i++) {
        int at = ps_param_find(s->outer->params, s->local->outer.number[i].key);

        assert_true(at >= 0);
        s->outer_params.v[at] = s->local->outer.number[i].value;
    }
    for (size_t k = 0; k < N; k++) {
        s->w[k] = (float)start_value(k);
    }
    for (uint32_t i = 0; i < W; i++) {
        s->shares[i] = 1.0;
    }
}

static void sim_set(sim *s, const char *key, double value)
{
    int at = ps_param_find(s->update->params, key);

    assert_true(at >= 0);
    s->params.v[at] = value;
}

/* The values of one variable: the weights, or the state. */
static ps_stretch stretch(sim *s, uint32_t i, bool is_state)
{
    size_t at = is_state ? STATE : 0;
    fake *f = &s->workers[i];

    return (ps_stretch){
        .n = is_state ? 1 : STATE,
        .is_state = is_state,
        .w = s->w + at,
        .x = f->x + at,
        .g = f->g + at,
        .p = f->p + at,
        .slots = f->slots + at * s->local->slots,
    };
}

static void local_steps(sim *s, uint32_t i, const ps_round *round, uint32_t steps)
{
    fake *f = &s->workers[i];

    for (uint32_t j = 0; j < steps; j++) {
        for (size_t k = 0; k < N; k++) {
            f->g[k] = (float)gradient(i, k, (double)f->x[k]);
        }
        if (s->local->sends_gradients) {
            return;
        }
        if (s->local->adjust != NULL) {
            ps_stretch v = stretch(s, i, false);

            s->local->adjust(round, &v);
        }
        for (size_t k = 0; k < N; k++) {
            f->x[k] -= (k == STATE ? 1.0f : (float)rate) * f->g[k];
        }
    }
}

static void each_part(sim *s, uint32_t i, const ps_round *round, bool adopts)
{
    for (int part = 0; part < 2; part++) {
        ps_stretch v = stretch(s, i, part == 1);

        if (adopts) {
            ps_local_adopt(s->local, round, &v);
        } else {
            s->local->contribute(round, &v);
        }
    }
}

static void sim_round(sim *s)
{
    uint32_t steps = s->local->steps(&s->params, s->clock);
    float sum[N] = {0};
    bool is_in[W];
    double samples = 0;
    ps_round round = {.params = &s->params,
                      .outer = &s->outer_params,
                      .workers = W,
                      .clock = s->clock,
                      .last_rate_sum = s->rate_sum,
                      .rate_sum = rate * steps};

    round.taken = ps_local_sample(s->local, &s->params, s->seed, s->clock, W, is_in);
    s->rate_sum = round.rate_sum;
    for (uint32_t i = 0; i < W; i++) {
        samples += is_in[i] ? s->shares[i] : 0;
    }
    for (uint32_t i = 0; i < W; i++) {
        if (!s->local->is_overlapped || s->clock == 0) {
            each_part(s, i, &round, true);
        }
        round.share = s->shares[i] / samples;
        if (is_in[i]) {
            local_steps(s, i, &round, steps);
            each_part(s, i, &round, false);
            for (size_t k = 0; k < N; k++) {
                sum[k] += s->workers[i].p[k];
            }
        }
    }
    s->outer->step(&s->outer_params, s->clock + 1, sum, s->outer_state, s->w, STATE);
    s->w[STATE] -= sum[STATE];
    s->clock++;
}

static void must_be(const float *got, const double *want, const char *what, uint64_t round)
{
    for (size_t k = 0; k < N; k++) {
        if (!(fabs((double)got[k] - want[k]) <= 2e-5 * (1.0 + fabs(want[k])))) {
            fail_msg("%s after round %llu: value %zu is %.9g, should be %.9g", what,
                     (unsigned long long)round, k, (double)got[k], want[k]);
        }
    }
}

static void start_at(double *w)
{
    for (size_t k = 0; k < N; k++) {
        w[k] = start_value(k);
    }
}

/* Plain steps of worker i from x. */
static void descend(uint32_t i, double *x, uint32_t steps)
{
    for (uint32_t j = 0; j < steps; j++) {
        for (size_t k = 0; k < N; k++) {
            x[k] -= (k == STATE ? 1.0 : rate) * gradient(i, k, x[k]);
        }
    }
}

/* ---- Means of replicas ---- */

/* w = sum shares x_i / sum shares over those who take part. */
static void average_round(double *w, uint32_t steps, const double *shares, const bool *is_in)
{
    double mean[N] = {0}, total = 0;

    for (uint32_t i = 0; i < W; i++) {
        double x[N];

        if (!is_in[i]) {
            continue;
        }
        memcpy(x, w, sizeof x);
        descend(i, x, steps);
        total += shares[i];
        for (size_t k = 0; k < N; k++) {
            mean[k] += shares[i] * x[k];
        }
    }
    for (size_t k = 0; k < N; k++) {
        w[k] = mean[k] / total;
    }
}

static const double alike[W] = {1, 1, 1, 1};
static const bool all_in[W] = {true, true, true, true};

static void replicas_are_averaged(void **state)
{
    static const char *const names[] = {"parameter_average", "localsgd", "fedavg"};

    (void)state;
    for (size_t m = 0; m < sizeof names / sizeof names[0]; m++) {
        double w[N];
        sim s;

        sim_init(&s, names[m]);
        sim_set(&s, "steps", 7);
        start_at(w);
        for (int t = 0; t < ROUNDS; t++) {
            sim_round(&s);
            average_round(w, 7, alike, all_in);
            must_be(s.w, w, names[m], s.clock);
        }
    }
}

static void post_local_sgd_is_in_step_first(void **state)
{
    double w[N];
    sim s;

    (void)state;
    sim_init(&s, "post_local");
    sim_set(&s, "steps", 5);
    sim_set(&s, "start", 3);
    start_at(w);
    for (int t = 0; t < ROUNDS; t++) {
        sim_round(&s);
        average_round(w, t < 3 ? 1 : 5, alike, all_in);
        must_be(s.w, w, "post_local", s.clock);
    }
    assert_int_equal(ps_local_clocks(s.local, &s.params, 3), 3);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 4), 4);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 13), 5);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 14), 6);
}

static void fedavg_weighs_by_samples_and_draws_its_workers(void **state)
{
    static const double samples[W] = {1, 2, 5, 3};
    uint32_t drawn[W] = {0};
    double w[N];
    sim s;

    (void)state;
    sim_init(&s, "fedavg");
    sim_set(&s, "steps", 4);
    sim_set(&s, "fraction", 0.5);
    memcpy(s.shares, samples, sizeof samples);
    s.seed = 42;
    start_at(w);
    for (int t = 0; t < 100; t++) {
        bool is_in[W];
        uint32_t taken = ps_local_sample(s.local, &s.params, s.seed, s.clock, W, is_in), n = 0;

        for (uint32_t i = 0; i < W; i++) {
            drawn[i] += is_in[i];
            n += is_in[i];
        }
        assert_int_equal(taken, 2);
        assert_int_equal(n, 2);
        average_round(w, 4, samples, is_in);
        sim_round(&s);
        must_be(s.w, w, "fedavg", s.clock);
    }
    for (uint32_t i = 0; i < W; i++) {
        assert_in_range(drawn[i], 30, 70); /* of 100 rounds, half each: 4 standard deviations */
    }
}

static void a_fraction_takes_at_least_one_worker_and_at_most_all(void **state)
{
    const ps_update *u = ps_update_find("fedavg");
    ps_params params = ps_params_default(u->params);
    bool is_in[W];

    (void)state;
    params.v[ps_param_find(u->params, "fraction")] = 0.001;
    assert_int_equal(ps_local_sample(u->local, &params, 1, 9, W, is_in), 1);
    params.v[ps_param_find(u->params, "fraction")] = 0.51;
    assert_int_equal(ps_local_sample(u->local, &params, 1, 9, W, is_in), 3);
    params.v[ps_param_find(u->params, "fraction")] = 1;
    assert_int_equal(ps_local_sample(u->local, &params, 1, 9, W, is_in), W);
}

/* ---- Sums ---- */

static void delta_adds_what_all_workers_did(void **state)
{
    double w[N];
    sim s;

    (void)state;
    sim_init(&s, "delta");
    sim_set(&s, "steps", 2);
    start_at(w);
    for (int t = 0; t < ROUNDS; t++) {
        double next[N];

        memcpy(next, w, sizeof next);
        for (uint32_t i = 0; i < W; i++) {
            double x[N];

            memcpy(x, w, sizeof x);
            descend(i, x, 2);
            for (size_t k = 0; k < N; k++) {
                next[k] += (x[k] - w[k]) / (k == STATE ? W : 1);
            }
        }
        memcpy(w, next, sizeof w);
        sim_round(&s);
        must_be(s.w, w, "delta", s.clock);
    }
}

/* ---- All of them ---- */

typedef struct tally {
    size_t count;
} tally;

/* Two variables side by side give the bits of one: nothing crosses values. */
static void state_settles_where_the_workers_mean_is(const ps_update *u, void *arg)
{
    tally *t = arg;
    double mean = 0;
    sim s;

    if (u->local == NULL) {
        return;
    }
    t->count++;
    sim_init(&s, u->name);
    for (uint32_t i = 0; i < W; i++) {
        mean += centre(i, STATE) / W;
    }
    for (int r = 0; r < 400; r++) {
        sim_round(&s);
    }
    if (!(fabs((double)s.w[STATE] - mean) < 1e-3)) {
        fail_msg("%s: state is %g, the workers' mean %g", u->name, (double)s.w[STATE], mean);
    }
    for (size_t k = 0; k < STATE; k++) {
        assert_true(fabs((double)s.w[k]) < 3.0); /* no centre is beyond 2 */
    }
}

static void layer_state_settles_at_the_mean_under_every_method(void **state)
{
    tally t = {0};

    (void)state;
    ps_update_each(state_settles_where_the_workers_mean_is, &t);
    assert_true(t.count >= 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_averaged),
        cmocka_unit_test(post_local_sgd_is_in_step_first),
        cmocka_unit_test(fedavg_weighs_by_samples_and_draws_its_workers),
        cmocka_unit_test(a_fraction_takes_at_least_one_worker_and_at_most_all),
        cmocka_unit_test(delta_adds_what_all_workers_did),
        cmocka_unit_test(layer_state_settles_at_the_mean_under_every_method),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
