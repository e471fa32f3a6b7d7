/* SPDX-License-Identifier: Apache-2.0 */
/* adam_rule.h - Adam's step of one value (Kingma and Ba 2015, algorithm 1, arXiv:1412.6980),
 * for adam.c and adamw.c. */
#ifndef PS_COMMON_OPTIM_ADAM_RULE_H
#define PS_COMMON_OPTIM_ADAM_RULE_H

#include "common/optim/loops.h"
#include "common/optim/optim.h"

#include <assert.h>

enum { PS_ADAM_RATE, PS_ADAM_BETA1, PS_ADAM_BETA2, PS_ADAM_EPSILON, PS_ADAM_PARAMS };

/* The table lines that adam and adamw share, in the order above. */
#define PS_ADAM_PARAM_LINES                                                                        \
    {.name = "lr",                                                                                 \
     .value = 0.001,                                                                               \
     .min = 0,                                                                                     \
     .max = 1000,                                                                                  \
     .help = "learning rate: factor of the step"},                                                 \
        {.name = "beta1",                                                                          \
         .value = 0.9,                                                                             \
         .min = 0,                                                                                 \
         .max = 0.999999,                                                                          \
         .help = "decay of the mean of g"},                                                        \
        {.name = "beta2",                                                                          \
         .value = 0.999,                                                                           \
         .min = 0,                                                                                 \
         .max = 0.999999,                                                                          \
         .help = "decay of the mean of g^2"},                                                      \
    {                                                                                              \
        .name = "epsilon", .value = 1e-8, .min = 1e-12, .max = 1,                                  \
        .help = "added to the root of the mean of g^2"                                             \
    }

/* The factors of a step that are the same for all values, computed in double and rounded once. */
typedef struct ps_adam_factors {
    float keep1, take1; /* m = keep1 m + take1 g */
    float keep2, take2; /* v = keep2 v + take2 g^2 */
    float rate;         /* learning rate / (1 - beta1^t) */
    float unbias;       /* 1 / (1 - beta2^t) */
    float epsilon;
} ps_adam_factors;

/* Returns the factors of step t, counted from 1. */
static inline ps_adam_factors ps_adam_factors_of(const ps_params *params, uint64_t t)
{
    double beta1 = params->v[PS_ADAM_BETA1], beta2 = params->v[PS_ADAM_BETA2];

    assert(t > 0);
    return (ps_adam_factors){
        .keep1 = (float)beta1,
        .take1 = (float)(1.0 - beta1),
        .keep2 = (float)beta2,
        .take2 = (float)(1.0 - beta2),
        .rate = (float)(params->v[PS_ADAM_RATE] / (1.0 - ps_power(beta1, t))),
        .unbias = (float)(1.0 / (1.0 - ps_power(beta2, t))),
        .epsilon = (float)params->v[PS_ADAM_EPSILON],
    };
}

/* Updates the moments *m and *v by gradient g. Returns the increment. */
static inline float ps_adam_increment_of(ps_adam_factors f, float g, float *m, float *v)
{
    float mean = ps_or_zero(f.keep1 * *m + f.take1 * g);
    float square = ps_or_zero(f.keep2 * *v + f.take2 * (g * g));

    *m = mean;
    *v = square;
    return f.rate * mean / (sqrtf(square * f.unbias) + f.epsilon);
}

#endif
