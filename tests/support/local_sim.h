/* SPDX-License-Identifier: Apache-2.0 */
/* local_sim.h - a method with local steps, driven as trainer and servers drive it,
 * over a few values and in step with all.
 *
 * W workers have quadratic losses of their own: the gradient of worker i at x is
 * slope_i (x - centre_i). Value STATE stands for a layer's state: its decrement is
 * 0.1 (x - centre_i), whatever the method. Local steps are plain, at sim_rate.
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
    double shares[W]; /* of samples; equal unless set */
    uint64_t seed, clock;
    double rate_sum, last_rate_sum;
    double compensation_factor; /* of the next round */
    float w[N], outer_state[4 * N];
    fake workers[W];
} sim;

/* The update's defaults; all workers have as many samples. */
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
