/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - Adam with a decay of the weights that its scaling does not affect (Loshchilov and
 * Hutter 2019, algorithm 2, arXiv:1711.05101). */
#include "common/optim/adam_rule.h"

enum { WEIGHT_DECAY = PS_ADAM_PARAMS };

static const ps_param adamw_params[] = {
    PS_ADAM_PARAM_LINES,
    {.name = "weight_decay",
     .value = 0.01,
     .min = 0,
     .max = 1,
     .help = "share of lr * w that each step subtracts"},
    {.name = NULL},
};

typedef struct factors {
    ps_adam_factors adam;
    float decay; /* learning rate * weight decay */
} factors;

static factors factors_of(const ps_params *params, uint64_t t)
{
    return (factors){
        .adam = ps_adam_factors_of(params, t),
        .decay = (float)(params->v[PS_ADAM_RATE] * params->v[WEIGHT_DECAY]),
    };
}

static inline float increment_of(factors f, ps_point x)
{
    return f.decay * x.w + ps_adam_increment_of(f.adam, x.g, x.a, x.b);
}

#define PS_RULE_SLOTS 2
#include "common/optim/body.h"

const ps_optim ps_optim_adamw = {
    .name = "adamw",
    .summary = "d = lr * weight_decay * w + the increment of adam (Loshchilov and Hutter 2019)",
    .params = adamw_params,
    PS_RULE_FORMS,
};
