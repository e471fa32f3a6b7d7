/* SPDX-License-Identifier: Apache-2.0 */
/* adadelta.c - steps scaled by the ratio of past steps to past gradients (Zeiler
 * 2012, algorithm 1, arXiv:1212.5701): the increment has the unit of the weight.
 */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE, RHO, EPSILON };

static const ps_param adadelta_params[] = {
    {.name = "lr", .value = 1, .min = 0, .max = 1000, .help = "learning rate: factor of the step"},
    {.name = "rho",
     .value = 0.95,
     .min = 0,
     .max = 0.999999,
     .help = "decay of the means of g^2 and of squared steps"},
    {.name = "epsilon",
     .value = 1e-6,
     .min = 1e-12,
     .max = 1,
     .help = "added to both means, below the root"},
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

static inline float increment_of(factors f, float g, float *mean, float *moved)
{
    float square = ps_or_zero(f.keep * *mean + f.take * (g * g));
    float u = sqrtf(*moved + f.epsilon) / sqrtf(square + f.epsilon) * g;

    *mean = square;
    *moved = ps_or_zero(f.keep * *moved + f.take * (u * u));
    return f.rate * u;
}

PS_CLONES static void increments(factors f, const float *g, float *restrict r, float *restrict s,
                                 float *d, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, g[i], &r[i], &s[i]);
    }
}

PS_CLONES static void steps(factors f, const float *restrict g, float *restrict r,
                            float *restrict s, float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= increment_of(f, g[i], &r[i], &s[i]);
    }
}

static void adadelta_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                               float *state, float *d, size_t n)
{
    (void)t;
    (void)w;
    increments(factors_of(params), g, state, state + n, d, n);
}

static void adadelta_step(const ps_params *params, uint64_t t, const float *g, float *state,
                          float *w, size_t n)
{
    (void)t;
    steps(factors_of(params), g, state, state + n, w, n);
}

const ps_optim ps_optim_adadelta = {
    .name = "adadelta",
    .summary = "r = rho * r + (1 - rho) * g^2; u = g * sqrt(x + epsilon) / sqrt(r + epsilon); "
               "x = rho * x + (1 - rho) * u^2; d = lr * u (Zeiler 2012)",
    .params = adadelta_params,
    .slots = 2,
    .increment = adadelta_increment,
    .step = adadelta_step,
};
