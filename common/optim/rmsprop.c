/* SPDX-License-Identifier: Apache-2.0 */
/* rmsprop.c - steps scaled by the running root mean square of the gradient (Hinton 2012,
 * lecture 6e). */
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

    *x.a = square;
    return f.rate * x.g / (sqrtf(square) + f.epsilon);
}

#define PS_RULE_SLOTS 1
#include "common/optim/body.h"

const ps_optim ps_optim_rmsprop = {
    .name = "rmsprop",
    .summary = "r = rho * r + (1 - rho) * g^2; d = lr * g / (sqrt(r) + epsilon) (Hinton 2012)",
    .params = rmsprop_params,
    PS_RULE_FORMS,
};
