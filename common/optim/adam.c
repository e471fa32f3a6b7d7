/* SPDX-License-Identifier: Apache-2.0 */
/* adam.c - steps scaled by running moments of the gradient (Kingma and Ba 2015, algorithm 1,
 * arXiv:1412.6980), in one pass over memory. */
#include "common/optim/adam_rule.h"

static const ps_param adam_params[] = {
    PS_ADAM_PARAM_LINES,
    {.name = NULL},
};

typedef ps_adam_factors factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    return ps_adam_factors_of(params, t);
}

static inline float increment_of(factors f, ps_point x)
{
    return ps_adam_increment_of(f, x.g, x.a, x.b);
}

#define PS_RULE_SLOTS 2
#include "common/optim/body.h"

const ps_optim ps_optim_adam = {
    .name = "adam",
    .summary = "d = lr * mhat / (sqrt(vhat) + epsilon), moments m and v of g and g^2 "
               "corrected for bias (Kingma and Ba 2015)",
    .params = adam_params,
    PS_RULE_FORMS,
};
