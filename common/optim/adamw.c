/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - Adam, and beside it a decay of the weights that its scaling does not
 * touch (Loshchilov and Hutter 2019, algorithm 2, arXiv:1711.05101).
 */
#include "common/optim/adam_rule.h"

enum { WEIGHT_DECAY = PS_ADAM_PARAMS };

static const ps_param adamw_params[] = {
    PS_ADAM_PARAM_LINES,
    {.name = "weight_decay",
     .value = 0.01,
     .min = 0,
     .max = 1,
     .help = "share of lr * w that each step takes away"},
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

static inline float increment_of(factors f, float g, float w, float *m, float *v)
{
    return f.decay * w + ps_adam_increment_of(f.adam, g, m, v);
}

PS_CLONES static void increments(factors f, const float *g, const float *w, float *restrict r,
                                 float *restrict s, float *d, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, g[i], w[i], &r[i], &s[i]);
    }
}

PS_CLONES static void steps(factors f, const float *restrict g, float *restrict r,
                            float *restrict s, float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= increment_of(f, g[i], w[i], &r[i], &s[i]);
    }
}

static void adamw_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                            float *state, float *d, size_t n)
{
    increments(factors_of(params, t), g, w, state, state + n, d, n);
}

static void adamw_step(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                       size_t n)
{
    steps(factors_of(params, t), g, state, state + n, w, n);
}

const ps_optim ps_optim_adamw = {
    .name = "adamw",
    .summary = "d = lr * weight_decay * w + the increment of adam (Loshchilov and Hutter 2019)",
    .params = adamw_params,
    .slots = 2,
    .increment = adamw_increment,
    .step = adamw_step,
};
