/* SPDX-License-Identifier: Apache-2.0 */
/* adagrad.c - steps scaled by the sum of all squared gradients so far (Duchi, Hazan, Singer
 * 2011). */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE, EPSILON };

static const ps_param adagrad_params[] = {
    {.name = "lr",
     .value = 0.01,
     .min = 0,
     .max = 1000,
     .help = "learning rate: factor of the step"},
    {.name = "epsilon",
     .value = 1e-7,
     .min = 1e-12,
     .max = 1,
     .help = "added to the root of the sum of g^2"},
    {.name = NULL},
};

/* Factors of the rule, the same for all values of a step: computed in double and rounded once. */
typedef struct factors {
    float rate, epsilon;
} factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    (void)t;
    return (factors){
        .rate = (float)params->v[RATE],
        .epsilon = (float)params->v[EPSILON],
    };
}

static inline float increment_of(factors f, ps_point x)
{
    float square = ps_or_zero(*x.a + x.g * x.g);

    *x.a = square;
    return f.rate * x.g / (sqrtf(square) + f.epsilon);
}

#define PS_RULE_SLOTS 1
#include "common/optim/body.h"

const ps_optim ps_optim_adagrad = {
    .name = "adagrad",
    .summary = "r = r + g^2; d = lr * g / (sqrt(r) + epsilon) (Duchi, Hazan, Singer 2011)",
    .params = adagrad_params,
    .rests_at_zero = true,
    PS_RULE_FORMS,
};
