/* SPDX-License-Identifier: Apache-2.0 */
/* rmsprop.c - steps scaled by the running root mean square of the gradient
 * (Hinton 2012, lecture 6e).
 */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE, RHO, EPSILON };

static const ps_param rmsprop_params[] = {
    {.name = "lr",
     .value = 0.01,
     .min = 0,
     .max = 1000,
     .help = "learning rate: factor of the step"},
    {.name = "rho", .value = 0.9, .min = 0, .max = 0.999999, .help = "decay of the mean of g^2"},
    {.name = "epsilon",
     .value = 1e-7,
     .min = 1e-12,
     .max = 1,
     .help = "added to the root of the mean of g^2"},
    {.name = NULL},
};

/* What does not depend on the value, rounded once. */
typedef struct factors {
    float rate, keep, take, epsilon;
} factors;

static factors factors_of(const ps_params *params)
{
    return (factors){
        .rate = (float)params->v[RATE],
        .keep = (float)params->v[RHO],
        .take = (float)(1.0 - params->v[RHO]),
        .epsilon = (float)params->v[EPSILON],
    };
}

static inline float increment_of(factors f, float g, float *mean)
{
    float square = ps_or_zero(f.keep * *mean + f.take * (g * g));

    *mean = square;
    return f.rate * g / (sqrtf(square) + f.epsilon);
}

PS_CLONES static void increments(factors f, const float *g, float *restrict r, float *d, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, g[i], &r[i]);
    }
}

PS_CLONES static void steps(factors f, const float *restrict g, float *restrict r,
                            float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= increment_of(f, g[i], &r[i]);
    }
}

static void rmsprop_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                              float *state, float *d, size_t n)
{
    (void)t;
    (void)w;
    increments(factors_of(params), g, state, d, n);
}

static void rmsprop_step(const ps_params *params, uint64_t t, const float *g, float *state,
                         float *w, size_t n)
{
    (void)t;
    steps(factors_of(params), g, state, w, n);
}

const ps_optim ps_optim_rmsprop = {
    .name = "rmsprop",
    .summary = "r = rho * r + (1 - rho) * g^2; d = lr * g / (sqrt(r) + epsilon) (Hinton 2012)",
    .params = rmsprop_params,
    .slots = 1,
    .increment = rmsprop_increment,
    .step = rmsprop_step,
};
