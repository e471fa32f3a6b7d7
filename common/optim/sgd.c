/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.c - a step down the gradient. */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE };

static const ps_param sgd_params[] = {
    {.name = "lr", .value = 0.01, .min = 0, .max = 1000, .help = "factor of the gradient"},
    {.name = NULL},
};

/* What does not depend on the value, rounded once. */
typedef struct factors {
    float rate;
} factors;

static factors factors_of(const ps_params *params)
{
    return (factors){
        .rate = (float)params->v[RATE],
    };
}

static inline float increment_of(factors f, float g)
{
    return f.rate * g;
}

PS_CLONES static void increments(factors f, const float *g, float *d, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, g[i]);
    }
}

PS_CLONES static void steps(factors f, const float *restrict g, float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= increment_of(f, g[i]);
    }
}

static void sgd_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                          float *state, float *d, size_t n)
{
    (void)t;
    (void)w;
    (void)state;
    increments(factors_of(params), g, d, n);
}

static void sgd_step(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                     size_t n)
{
    (void)t;
    (void)state;
    steps(factors_of(params), g, w, n);
}

const ps_optim ps_optim_sgd = {
    .name = "sgd",
    .summary = "d = lr * g",
    .params = sgd_params,
    .slots = 0,
    .increment = sgd_increment,
    .step = sgd_step,
};
