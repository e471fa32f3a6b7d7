/* SPDX-License-Identifier: Apache-2.0 */
/* test_update_overlap.c - methods that train on while a round is exchanged against
 * their formulas as they are published, as test_update_local.c. */
#include "tests/support/cmocka_all.h"

#include "tests/support/local_sim.h"

#include <math.h>
#include <string.h>

/* ---- Overlapped: OSP and LOSP ---- */

/* As published, with sums of gradients: T1 steps and adds up, T2 takes V, swaps the
 * sum out and sets the worker to V - gamma P. */
static void osp_and_losp_go_on_from_what_they_were_given(void **state)
{
    static const struct {
        const char *name;
        double gamma;
        bool falls; /* gamma / (1 + t) in round t */
    } cases[] = {{"osp", 0.0, false},
                 {"losp", 1.5 * 0.05, false},
                 {"losp", 0.4 * 0.05, false},
                 {"losp", 1.5 * 0.05, true},
                 {"dqlosp", 1.5 * 0.05, true}};

    (void)state;
    for (size_t m = 0; m < sizeof cases / sizeof cases[0]; m++) {
        double x[W][N], sum[W][N], w[N];
        sim s;

        sim_init(&s, cases[m].name);
        sim_set(&s, "steps", 6);
        if (m > 0) {
            sim_set(&s, "compensation", cases[m].gamma / sim_rate);
        }
        sim_start_at(w);
        for (uint32_t i = 0; i < W; i++) {
            sim_start_at(x[i]);
        }
        for (int t = 0; t < ROUNDS; t++) {
            double mean[N] = {0};
            double factor = cases[m].falls ? 1.0 / (1.0 + t) : 1.0;

            s.compensation_factor = factor;
            for (uint32_t i = 0; i < W; i++) {
                memset(sum[i], 0, sizeof sum[i]);
                for (int j = 0; j < 6; j++) {
                    for (size_t k = 0; k < STATE; k++) {
                        double g = sim_gradient(i, k, x[i][k]);

                        sum[i][k] += g;
                        x[i][k] -= sim_rate * g;
                    }
                }
                for (size_t k = 0; k < STATE; k++) {
                    x[i][k] = w[k] - factor * cases[m].gamma * sum[i][k];
                    mean[k] += sum[i][k] / W;
                }
            }
            for (size_t k = 0; k < STATE; k++) {
                w[k] -= sim_rate * mean[k];
            }
            sim_round(&s);
            sim_weights_must_be(&s, w, cases[m].name);
            for (uint32_t i = 0; i < W; i++) {
                for (size_t k = 0; k < STATE; k++) {
                    assert_true(fabs((double)s.workers[i].x[k] - x[i][k]) < 1e-4);
                }
            }
        }
    }
}

/* |w - its limit| of value 0 after so many rounds of `steps`, all as in osp.c. */
static double swing(uint32_t steps, uint64_t rounds)
{
    double limit = 0;
    sim s;

    sim_init(&s, "osp");
    sim_set(&s, "steps", (double)steps);
    for (uint32_t i = 0; i < W; i++) {
        limit += sim_centre(i, 0) / W;
    }
    for (uint64_t t = 0; t < rounds; t++) {
        sim_round(&s);
    }
    return (double)s.w[0] - limit;
}

static void osp_swings_where_a_round_reaches_its_optimum(void **state)
{
    (void)state;
    for (uint64_t t = 1; t <= 12; t++) { /* d_(t+3) = -d_t */
        assert_true(fabs(swing(2000, t) + swing(2000, t + 3)) < 1e-3);
        assert_true(fabs(swing(2000, t) - swing(2000, t + 6)) < 1e-3);
    }
    assert_true(fabs(swing(2000, 30)) > 1.0 || fabs(swing(2000, 31)) > 1.0);
}

/* ---- Geo ---- */

/* Each of four workers moves by d once: what the servers have after each exchange. */
static void geo_lands_what_workers_did_as_a_sum_with_lag(void **state)
{
    static const double so_far[] = {1.00, 1.75, 2.3125, 2.734375};
    const float d = 0.5f;
    sim s;
    ps_round round = {.workers = W, .share = 1.0 / W};

    (void)state;
    sim_init(&s, "geo_sum_lag");
    round.params = &s.params;
    for (uint32_t i = 0; i < W; i++) {
        sim_each_part(&s, i, &round, true);
        s.workers[i].x[0] += d;
    }
    for (uint64_t t = 0; t < 60; t++) {
        float sum = 0;
        double want = (double)d * W * (1.0 - pow(1.0 - 1.0 / W, (double)t + 1));

        round.clock = t;
        for (uint32_t i = 0; i < W; i++) {
            sim_each_part(&s, i, &round, false);
            sum += s.workers[i].p[0];
        }
        s.w[0] -= sum;
        if (t < 4) {
            assert_true(fabs(((double)s.w[0] - 1.0) / (double)d - so_far[t]) < 1e-6);
        }
        assert_true(fabs((double)s.w[0] - 1.0 - want) < 1e-5);
    }
    assert_true(fabs((double)s.w[0] - 1.0 - 4.0 * (double)d) < 1e-5);
}

/* Two rows of two values: row 0 is touched in every round, row 1 in the first alone.
 * Returns what the servers have of row 1 after `rounds`, of what four workers did. */
static double landed(double idle_rounds, uint64_t rounds, bool is_end)
{
    const float d = 0.5f;
    uint64_t touched[W][2] = {{0}};
    float w[4] = {1, 2, 3, 4}, x[W][4], p[W][4], slots[W][4];
    sim s;
    ps_round round = {.workers = W, .share = 1.0 / W};

    sim_init(&s, "geo_sum_lag");
    sim_set(&s, "idle_rounds", idle_rounds);
    round.params = &s.params;
    for (uint64_t t = 0; t < rounds; t++) {
        round.clock = t;
        round.is_last = is_end && t + 1 == rounds;
        for (uint32_t i = 0; i < W; i++) {
            ps_stretch v = {.n = 4,
                            .row = 2,
                            .w = w,
                            .x = x[i],
                            .p = p[i],
                            .slots = slots[i],
                            .touched = touched[i]};

            if (t == 0) {
                ps_local_adopt(s.local, &round, &v);
            }
            for (size_t row = 0; row < (t == 0 ? 2u : 1u); row++) {
                x[i][2 * row + 1] += d;
                touched[i][row] = t + 1;
            }
            s.local->contribute(&round, &v);
        }
        for (uint32_t i = 0; i < W; i++) {
            for (size_t k = 0; k < 4; k++) {
                w[k] -= p[i][k];
            }
        }
    }
    assert_true(fabs((double)w[0] - 1) < 1e-6 && fabs((double)w[2] - 3) < 1e-6);
    return ((double)w[3] - 4) / (double)d;
}

/* Of a row that is touched once Fleet lands 1 / T of what each worker did, and no
 * more: of 4 the servers have 1. */
static void rows_that_are_idle_are_flushed(void **state)
{
    (void)state;
    assert_true(fabs(landed(0, 30, false) - 1.0) < 1e-5);
    assert_true(fabs(landed(5, 5, false) - 1.0) < 1e-5);
    assert_true(fabs(landed(5, 6, false) - 4.0) < 1e-5);
    assert_true(fabs(landed(5, 30, false) - 4.0) < 1e-5);  /* once */
    assert_true(fabs(landed(1000, 3, true) - 4.0) < 1e-5); /* at the end of the job */
}

static void geo_that_averages_lands_the_mean_at_once(void **state)
{
    sim s;
    ps_round round = {.workers = W, .share = 1.0 / W};

    (void)state;
    sim_init(&s, "geo_average");
    round.params = &s.params;
    for (uint32_t i = 0; i < W; i++) {
        sim_each_part(&s, i, &round, true);
        s.workers[i].x[0] += (float)(i + 1); /* mean 2.5 */
    }
    for (uint64_t t = 0; t < 5; t++) {
        float sum = 0;

        round.clock = t;
        for (uint32_t i = 0; i < W; i++) {
            sim_each_part(&s, i, &round, false);
            sum += s.workers[i].p[0];
        }
        s.w[0] -= sum;
        assert_true(fabs((double)s.w[0] - 3.5) < 1e-6);
    }
}

/* Fleet's cycle over what its worker keeps: latest and old. */
static void geo_trains_as_fleet_does(void **state)
{
    double latest[W][N], old[W][N], w[N];
    sim s;

    (void)state;
    sim_init(&s, "geo_sum_lag");
    sim_set(&s, "steps", 3);
    sim_start_at(w);
    for (uint32_t i = 0; i < W; i++) {
        sim_start_at(latest[i]);
        sim_start_at(old[i]);
    }
    for (int t = 0; t < ROUNDS; t++) {
        double d[W][N];

        for (uint32_t i = 0; i < W; i++) {
            sim_descend(i, latest[i], 3);
            for (size_t k = 0; k < STATE; k++) {
                latest[i][k] += w[k] - old[i][k]; /* recv */
                old[i][k] = w[k];
                d[i][k] = (latest[i][k] - old[i][k]) / W; /* send */
                old[i][k] += d[i][k];
            }
        }
        for (size_t k = 0; k < STATE; k++) {
            for (uint32_t i = 0; i < W; i++) {
                w[k] += d[i][k];
            }
        }
        sim_round(&s);
        sim_weights_must_be(&s, w, "geo_sum_lag");
    }
}

static void elastic_averaging_pulls_both_ways(void **state)
{
    const double alpha = 0.8 / W;
    double x[W][N], w[N];
    sim s;

    (void)state;
    sim_init(&s, "easgd");
    sim_set(&s, "steps", 3);
    sim_set(&s, "beta", 0.8);
    sim_start_at(w);
    for (uint32_t i = 0; i < W; i++) {
        sim_start_at(x[i]);
    }
    for (int t = 0; t < ROUNDS; t++) {
        double next[N];

        memcpy(next, w, sizeof next);
        for (uint32_t i = 0; i < W; i++) {
            sim_descend(i, x[i], 3);
            for (size_t k = 0; k < STATE; k++) {
                next[k] += alpha * (x[i][k] - w[k]);
                x[i][k] -= alpha * (x[i][k] - w[k]);
            }
        }
        memcpy(w, next, sizeof w);
        sim_round(&s);
        sim_weights_must_be(&s, w, "easgd");
    }
}

/* ---- DiLoCo ---- */

static void nesterov(double *w, double *u, const double *mean, double lr, double m)
{
    for (size_t k = 0; k < STATE; k++) {
        u[k] = m * u[k] + mean[k];
        w[k] -= lr * (mean[k] + m * u[k]);
    }
}

static void diloco_steps_by_nesterov_outside(void **state)
{
    double w[N], u[N] = {0};
    sim s;

    (void)state;
    sim_init(&s, "diloco");
    sim_set(&s, "steps", 4);
    sim_start_at(w);
    for (int t = 0; t < ROUNDS; t++) {
        double mean[N] = {0};

        for (uint32_t i = 0; i < W; i++) {
            double x[N];

            memcpy(x, w, sizeof x);
            sim_descend(i, x, 4);
            for (size_t k = 0; k < STATE; k++) {
                mean[k] += (w[k] - x[k]) / W;
            }
        }
        nesterov(w, u, mean, 0.7, 0.9);
        sim_round(&s);
        sim_weights_must_be(&s, w, "diloco");
    }
}

/* Eager updates, spelt out: every worker has an outer optimizer, which is given its own fresh
 * part and the others' of the round before. */
static void overlapped_diloco_goes_on_from_its_own_part(void **state)
{
    const double lr = 0.5, m = 0.8;
    double w[N], u[N] = {0}, x[W][N], own_u[W][N] = {{0}}, last[W][N] = {{0}}, mean[N] = {0};
    sim s;

    (void)state;
    sim_init(&s, "diloco_overlapped");
    sim_set(&s, "steps", 4);
    s.outer_params.v[0] = lr;
    s.outer_params.v[1] = m;
    sim_start_at(w);
    for (uint32_t i = 0; i < W; i++) {
        sim_start_at(x[i]);
    }
    for (int t = 0; t < ROUNDS; t++) {
        double next[N] = {0};

        for (uint32_t i = 0; i < W; i++) {
            double begun[N], eager[N];

            memcpy(begun, x[i], sizeof begun);
            sim_descend(i, x[i], 4);
            for (size_t k = 0; k < STATE; k++) {
                double p = (begun[k] - x[i][k]) / W;

                eager[k] = p + (mean[k] - last[i][k]);
                last[i][k] = p;
                next[k] += p;
            }
            memcpy(x[i], begun, sizeof begun);
            nesterov(x[i], own_u[i], eager, lr, m);
        }
        memcpy(mean, next, sizeof mean);
        nesterov(w, u, mean, lr, m);
        sim_round(&s);
        sim_weights_must_be(&s, w, "diloco_overlapped");
        for (uint32_t i = 0; i < W; i++) {
            for (size_t k = 0; k < STATE; k++) {
                assert_true(fabs((double)s.workers[i].x[k] - x[i][k]) < 1e-4);
            }
        }
    }
}

/* |w - its limit| of value 0 after rounds that go (almost) all of the way to their optimum; rate
 * 0: the default outer rule. */
static double far_off(double rate, double momentum, uint64_t rounds)
{
    double limit = 0;
    sim s;

    sim_init(&s, "diloco_overlapped");
    sim_set(&s, "steps", 2000);
    if (rate > 0) {
        s.outer_params.v[0] = rate;
        s.outer_params.v[1] = momentum;
    }
    for (uint32_t i = 0; i < W; i++) {
        limit += sim_centre(i, 0) / W;
    }
    for (uint64_t t = 0; t < rounds; t++) {
        sim_round(&s);
    }
    return fabs((double)s.w[0] - limit);
}

/* For W = 4 the bound is 0.59 for 0.7 and 0.9, and 2.07 for the default, see the file. */
static void overlapped_diloco_converges_within_its_bound(void **state)
{
    (void)state;
    assert_true(far_off(0, 0, 200) < 1e-3);
    assert_true(far_off(0.3, 0.5, 100) < 1e-3);
    assert_true(far_off(0.7, 0.9, 60) > 10 || far_off(0.7, 0.9, 61) > 10);
}

/* How far from their optimum, 0, workers that are alike end whose rounds go a part c of the way. */
static double spread(double c, double rate, uint32_t workers, uint64_t rounds)
{
    float w = 1, x = 1, p, slots[PS_LOCAL_SLOTS_MAX] = {0};
    ps_params outer = {.v = {rate, 0.9}};
    ps_round round = {.workers = workers, .share = 1.0 / workers, .outer = &outer};
    ps_stretch v = {.n = 1, .w = &w, .x = &x, .p = &p, .slots = slots};
    double u = 0, mean, far = 0;
    sim s;

    sim_init(&s, "diloco_overlapped");
    ps_local_adopt(s.local, &round, &v);
    for (; round.clock < rounds && far < 1e6; round.clock++) {
        x -= (float)c * x;
        s.local->contribute(&round, &v);
        mean = (double)p * workers;
        u = 0.9 * u + mean;
        w -= (float)(rate * (mean + 0.9 * u));
        far = fabs((double)w) + fabs((double)x);
    }
    return far;
}

static void the_bounds_that_are_written_down_are_where_it_turns(void **state)
{
    static const double rates[] = {0.7, 0.4, 0.2};
    static const uint32_t workers[] = {2, 4, 8, 1000000};
    static const double bounds[][4] = {
        {1.09, 0.59, 0.45, 0.36}, {1.92, 1.03, 0.80, 0.63}, {3.84, 2.07, 1.60, 1.26}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) {
            assert_true(spread(bounds[i][j] - 0.02, rates[i], workers[j], 20000) < 1e-3);
            assert_true(spread(bounds[i][j] + 0.02, rates[i], workers[j], 20000) > 1e3);
        }
    }
}

static void double_buffering_steps_on_weights_one_step_older(void **state)
{
    double w[N], before[N];
    sim s;

    (void)state;
    sim_init(&s, "double_buffering");
    s.outer_params.v[0] = 0.1;
    sim_start_at(w);
    sim_start_at(before);
    for (int t = 0; t < 3 * ROUNDS; t++) {
        double next[N];

        for (size_t k = 0; k < STATE; k++) {
            double sum = 0;

            for (uint32_t i = 0; i < W; i++) {
                sum += sim_gradient(i, k, before[k]);
            }
            next[k] = w[k] - 0.1 * sum / W;
        }
        memcpy(before, w, sizeof before);
        memcpy(w, next, sizeof w);
        sim_round(&s);
        sim_weights_must_be(&s, w, "double_buffering");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(osp_and_losp_go_on_from_what_they_were_given),
        cmocka_unit_test(osp_swings_where_a_round_reaches_its_optimum),
        cmocka_unit_test(geo_lands_what_workers_did_as_a_sum_with_lag),
        cmocka_unit_test(rows_that_are_idle_are_flushed),
        cmocka_unit_test(geo_that_averages_lands_the_mean_at_once),
        cmocka_unit_test(geo_trains_as_fleet_does),
        cmocka_unit_test(elastic_averaging_pulls_both_ways),
        cmocka_unit_test(diloco_steps_by_nesterov_outside),
        cmocka_unit_test(overlapped_diloco_goes_on_from_its_own_part),
        cmocka_unit_test(overlapped_diloco_converges_within_its_bound),
        cmocka_unit_test(the_bounds_that_are_written_down_are_where_it_turns),
        cmocka_unit_test(double_buffering_steps_on_weights_one_step_older),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
