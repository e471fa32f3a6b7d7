/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.c - a step along the running sum of gradients (Polyak 1964). */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE, MOMENTUM };

static const ps_param momentum_params[] = {
    {.name = "lr",
     .value = 0.01,
     .min = 0,
     .max = 1000,
     .help = "learning rate: factor of the step"},
    {.name = "momentum",
     .value = 0.9,
     .min = 0,
     .max = 0.999999,
     .help = "decay of the running sum of g"},
    {.name = NULL},
};

/* What does not depend on the value, rounded once. */
typedef struct factors {
    float rate, keep;
} factors;

static factors factors_of(const ps_params *params)
{
    return (factors){
        .rate = (float)params->v[RATE],
        .keep = (float)params->v[MOMENTUM],
    };
}

static inline float increment_of(factors f, float g, float *sum)
{
    float u = ps_or_zero(f.keep * *sum + g);

    *sum = u;
    return f.rate * u;
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

static void momentum_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                               float *state, float *d, size_t n)
{
    (void)t;
    (void)w;
    increments(factors_of(params), g, state, d, n);
}

static void momentum_step(const ps_params *params, uint64_t t, const float *g, float *state,
                          float *w, size_t n)
{
    (void)t;
    steps(factors_of(params), g, state, w, n);
}

const ps_optim ps_optim_momentum = {
    .name = "momentum",
    .summary = "u = momentum * u + g; d = lr * u (Polyak 1964)",
    .params = momentum_params,
    .slots = 1,
    .increment = momentum_increment,
    .step = momentum_step,
};
