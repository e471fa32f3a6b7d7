/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.c - steps along the running sum of gradients (Polyak 1964). */
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

/* Factors of the rule, the same for all values of a step: computed in double and rounded once. */
typedef struct factors {
    float rate, keep;
} factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    (void)t;
    return (factors){
        .rate = (float)params->v[RATE],
        .keep = (float)params->v[MOMENTUM],
    };
}

static inline float increment_of(factors f, ps_point x)
{
    float u = ps_or_zero(f.keep * *x.a + x.g);

    *x.a = u;
    return f.rate * u;
}

#define PS_RULE_SLOTS 1
#include "common/optim/body.h"

const ps_optim ps_optim_momentum = {
    .name = "momentum",
    .summary = "u = momentum * u + g; d = lr * u (Polyak 1964)",
    .params = momentum_params,
    PS_RULE_FORMS,
};
