/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.c - plain gradient descent. */
#include "common/optim/loops.h"
#include "common/optim/optim.h"

enum { RATE };

static const ps_param sgd_params[] = {
    {.name = "lr", .value = 0.01, .min = 0, .max = 1000, .help = "factor of the gradient"},
    {.name = NULL},
};

/* Factors of the rule, the same for all values of a step: computed in double and rounded once. */
typedef struct factors {
    float rate;
} factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    (void)t;
    return (factors){
        .rate = (float)params->v[RATE],
    };
}

static inline float increment_of(factors f, ps_point x)
{
    return f.rate * x.g;
}

#define PS_RULE_SLOTS 0
#include "common/optim/body.h"

const ps_optim ps_optim_sgd = {
    .name = "sgd",
    .summary = "d = lr * g",
    .params = sgd_params,
    .rests_at_zero = true,
    PS_RULE_FORMS,
};
