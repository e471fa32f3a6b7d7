/* SPDX-License-Identifier: Apache-2.0 */
/* decay.c - steps down the gradient that shorten with the root of their number. */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE };

static const ps_param decay_params[] = {
    {.name = "lr",
     .value = 0.03,
     .min = 0,
     .max = 1000,
     .help = "factor of the gradient at the first step"},
    {.name = NULL},
};

/* What does not depend on the value, rounded once. */
typedef struct factors {
    float rate;
} factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    return (factors){
        .rate = (float)(params->v[RATE] / sqrt((double)t)),
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

static void decay_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                            float *state, float *d, size_t n)
{
    (void)w;
    (void)state;
    increments(factors_of(params, t), g, d, n);
}

static void decay_step(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                       size_t n)
{
    (void)state;
    steps(factors_of(params, t), g, w, n);
}

const ps_optim ps_optim_decay = {
    .name = "decay",
    .summary = "d = lr * g / sqrt(t)",
    .params = decay_params,
    .slots = 0,
    .increment = decay_increment,
    .step = decay_step,
};
