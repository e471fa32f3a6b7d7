/* SPDX-License-Identifier: Apache-2.0 */
/* test_update_local.c - methods with rounds of local steps against their formulas as
 * they are published, computed in doubles over parameters, not over what is sent. */
#include "tests/support/cmocka_all.h"

#include "tests/support/local_sim.h"

#include <math.h>
#include <string.h>

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
        sim_descend(i, x, steps);
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
        sim_start_at(w);
        for (int t = 0; t < ROUNDS; t++) {
            sim_round(&s);
            average_round(w, 7, alike, all_in);
            sim_must_be(s.w, w, names[m], s.clock);
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
    sim_start_at(w);
    for (int t = 0; t < ROUNDS; t++) {
        sim_round(&s);
        average_round(w, t < 3 ? 1 : 5, alike, all_in);
        sim_must_be(s.w, w, "post_local", s.clock);
    }
    assert_int_equal(ps_local_clocks(s.local, &s.params, 3), 3);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 4), 4);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 13), 5);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 14), 6);
    assert_int_equal(ps_local_clocks(s.local, &s.params, 2), 2);
    /* Jobs of any length are planned at once. */
    assert_true(ps_local_clocks(s.local, &s.params, UINT64_C(5000000000003)) ==
                UINT64_C(1000000000003));
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
    sim_start_at(w);
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
        sim_must_be(s.w, w, "fedavg", s.clock);
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
    sim_start_at(w);
    for (int t = 0; t < ROUNDS; t++) {
        double next[N];

        memcpy(next, w, sizeof next);
        for (uint32_t i = 0; i < W; i++) {
            double x[N];

            memcpy(x, w, sizeof x);
            sim_descend(i, x, 2);
            for (size_t k = 0; k < N; k++) {
                next[k] += (x[k] - w[k]) / (k == STATE ? W : 1);
            }
        }
        memcpy(w, next, sizeof w);
        sim_round(&s);
        sim_must_be(s.w, w, "delta", s.clock);
    }
}

/* ---- Corrected local steps ---- */

static void fedprox_holds_replicas_to_the_shared_weights(void **state)
{
    const double mu = 0.7;
    double w[N];
    sim s;

    (void)state;
    sim_init(&s, "fedprox");
    sim_set(&s, "steps", 5);
    sim_set(&s, "mu", mu);
    sim_start_at(w);
    for (int t = 0; t < ROUNDS; t++) {
        double mean[N] = {0};

        for (uint32_t i = 0; i < W; i++) {
            for (size_t k = 0; k < STATE; k++) {
                double x = w[k];

                for (int j = 0; j < 5; j++) {
                    x -= sim_rate * (sim_gradient(i, k, x) + mu * (x - w[k]));
                }
                mean[k] += x / W;
            }
        }
        memcpy(w, mean, sizeof w);
        sim_round(&s);
        sim_weights_must_be(&s, w, "fedprox");
    }
}

/* Option II of the paper, c kept by a server; with two of four workers a round. */
static void scaffold_needs_nothing_but_the_weights(void **state)
{
    enum { K = 6 };
    const double outer = 0.9;
    double w[N], c[N] = {0}, own[W][N] = {{0}};
    sim s;

    (void)state;
    sim_init(&s, "scaffold");
    sim_set(&s, "steps", K);
    sim_set(&s, "fraction", 0.5);
    s.outer_params.v[0] = outer;
    s.seed = 5;
    sim_start_at(w);
    for (int t = 0; t < 4 * ROUNDS; t++) {
        double moved[N] = {0}, change[N] = {0};
        bool is_in[W];
        uint32_t taken = ps_local_sample(s.local, &s.params, s.seed, s.clock, W, is_in);

        for (uint32_t i = 0; i < W; i++) {
            for (size_t k = 0; is_in[i] && k < STATE; k++) {
                double x = w[k], next;

                for (int j = 0; j < K; j++) {
                    x -= sim_rate * (sim_gradient(i, k, x) - own[i][k] + c[k]);
                }
                next = own[i][k] - c[k] + (w[k] - x) / (K * sim_rate);
                moved[k] += (x - w[k]) / taken;
                change[k] += (next - own[i][k]) / W;
                own[i][k] = next;
            }
        }
        for (size_t k = 0; k < STATE; k++) {
            w[k] += outer * moved[k];
            c[k] += change[k];
        }
        sim_round(&s);
        sim_weights_must_be(&s, w, "scaffold");
    }
}

/* Workers with different optima drift apart between exchanges; corrected, they
 * come to where the gradients of all add up to 0. */
static void scaffold_finds_the_optimum_that_fedavg_misses(void **state)
{
    static const char *const names[] = {"fedavg", "scaffold"};
    double off[2] = {0};

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        sim s;

        sim_init(&s, names[m]);
        sim_set(&s, "steps", 30);
        for (int t = 0; t < 300; t++) {
            sim_round(&s);
        }
        for (size_t k = 0; k < STATE; k++) {
            double above = 0, below = 0;

            for (uint32_t i = 0; i < W; i++) {
                above += sim_slope(i, k) * sim_centre(i, k);
                below += sim_slope(i, k);
            }
            off[m] = fmax(off[m], fabs((double)s.w[k] - above / below));
        }
    }
    assert_true(off[0] > 0.02);
    assert_true(off[1] < 1e-3);
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
    if (u->local->sends_gradients) {
        s.outer_params.v[0] = sim_rate;
    } else {
        sim_set(&s, "steps", 4);
    }
    for (uint32_t i = 0; i < W; i++) {
        mean += sim_centre(i, STATE) / W;
    }
    for (int r = 0; r < 400; r++) {
        sim_round(&s);
    }
    if (!(fabs((double)s.w[STATE] - mean) < 1e-3)) {
        fail_msg("%s: state is %g, the workers' mean %g", u->name, (double)s.w[STATE], mean);
    }
    for (size_t k = 0; k < STATE; k++) {
        if (!(fabs((double)s.w[k]) < 3.0)) { /* no centre is beyond 2 */
            fail_msg("%s: value %zu is %g", u->name, k, (double)s.w[k]);
        }
    }
}

static void layer_state_settles_at_the_mean_under_every_method(void **state)
{
    tally t = {0};

    (void)state;
    ps_update_each(state_settles_where_the_workers_mean_is, &t);
    assert_true(t.count >= 15);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_averaged),
        cmocka_unit_test(post_local_sgd_is_in_step_first),
        cmocka_unit_test(fedavg_weighs_by_samples_and_draws_its_workers),
        cmocka_unit_test(a_fraction_takes_at_least_one_worker_and_at_most_all),
        cmocka_unit_test(delta_adds_what_all_workers_did),
        cmocka_unit_test(fedprox_holds_replicas_to_the_shared_weights),
        cmocka_unit_test(scaffold_needs_nothing_but_the_weights),
        cmocka_unit_test(scaffold_finds_the_optimum_that_fedavg_misses),
        cmocka_unit_test(layer_state_settles_at_the_mean_under_every_method),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
