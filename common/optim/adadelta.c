/* SPDX-License-Identifier: Apache-2.0 */
/* adadelta.c - steps scaled by the ratio of past steps to past gradients (Zeiler 2012,
 * algorithm 1, arXiv:1212.5701). The increment has the unit of the weight. */
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
     .help = "added to both means before the root is taken"},
    {.name = NULL},
};

/* Factors of the rule, the same for all values of a step: computed in double and rounded once. */
typedef struct factors {
    float rate, keep, take, epsilon;
} factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    (void)t;
    return (factors){
        .rate = (float)params->v[RATE],
        .keep = (float)params->v[RHO],
        .take = (float)(1.0 - params->v[RHO]),
        .epsilon = (float)params->v[EPSILON],
    };
}

static inline float increment_of(factors f, ps_point x)
{
    float square = ps_or_zero(f.keep * *x.a + f.take * (x.g * x.g));
    float u = sqrtf(*x.b + f.epsilon) / sqrtf(square + f.epsilon) * x.g;

    *x.a = square;
    *x.b = ps_or_zero(f.keep * *x.b + f.take * (u * u));
    return f.rate * u;
}

#define PS_RULE_SLOTS 2
#include "common/optim/body.h"

const ps_optim ps_optim_adadelta = {
    .name = "adadelta",
    .summary = "r = rho * r + (1 - rho) * g^2; u = g * sqrt(x + epsilon) / sqrt(r + epsilon); "
               "x = rho * x + (1 - rho) * u^2; d = lr * u (Zeiler 2012)",
    .params = adadelta_params,
    PS_RULE_FORMS,
};
