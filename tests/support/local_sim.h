/* SPDX-License-Identifier: Apache-2.0 */
/* local_sim.h - simulates an update with local steps as trainer and servers carry it out: W workers
 * in step, and models of N values.
 *
 * Each worker has a quadratic loss of its own: the gradient of worker i for value k at x is
 * sim_slope(i, k) (x - sim_centre(i, k)). Value STATE stands for the state of a layer: each step
 * subtracts 0.1 (x - sim_centre(i, k)) from it, whatever the update. Local steps are plain gradient
 * descent at the rate sim_rate.
 */
#ifndef PS_TESTS_SUPPORT_LOCAL_SIM_H
#define PS_TESTS_SUPPORT_LOCAL_SIM_H

#include "common/optim/optim.h"
#include "common/update/update.h"

enum { W = 4, N = 5, STATE = N - 1, ROUNDS = 12 };

extern const double sim_rate;

typedef struct fake {
    float x[N], g[N], p[N], slots[PS_LOCAL_SLOTS_MAX * N];
} fake;

typedef struct sim {
    const ps_local *local;
    const ps_update *update;
    ps_params params, outer_params;
    const ps_optim *outer;
    /* number of samples of each worker, relative to the others; 1 each unless the test sets them */
    double shares[W];
    uint64_t seed, clock;
    double rate_sum, last_rate_sum;
    double compensation_factor; /* factor of the schedule of `compensation` in the next round */
    float w[N], outer_state[4 * N];
    fake workers[W];
} sim;

/* Return slope and centre of the loss of worker i for value k, the gradient of worker i for value k
 * at x, and the initial value k. */
double sim_slope(uint32_t i, size_t k);
double sim_centre(uint32_t i, size_t k);
double sim_gradient(uint32_t i, size_t k, double x);
double sim_start_value(size_t k);
void sim_init(sim *s, const char *name);
void sim_set(sim *s, const char *key, double value);
void sim_each_part(sim *s, uint32_t i, const ps_round *round, bool adopts);
void sim_round(sim *s);
void sim_must_be(const float *got, const double *want, const char *what, uint64_t round);
void sim_weights_must_be(sim *s, const double *want, const char *what);
void sim_start_at(double *w);
void sim_descend(uint32_t i, double *x, uint32_t steps);

#endif
