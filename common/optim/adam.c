/* SPDX-License-Identifier: Apache-2.0 */
/* adam.c - steps scaled by running moments of the gradient (Kingma and Ba 2015,
 * algorithm 1, arXiv:1412.6980), one pass over memory.
 */
#include "common/optim/adam_rule.h"

static const ps_param adam_params[] = {
    PS_ADAM_PARAM_LINES,
    {.name = NULL},
};

PS_CLONES static void increments(ps_adam_factors f, const float *g, float *restrict r,
                                 float *restrict s, float *d, size_t n)
{
    PS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        d[i] = ps_adam_increment_of(f, g[i], &r[i], &s[i]);
    }
}

PS_CLONES static void steps(ps_adam_factors f, const float *restrict g, float *restrict r,
                            float *restrict s, float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= ps_adam_increment_of(f, g[i], &r[i], &s[i]);
    }
}

static void adam_increment(const ps_params *params, uint64_t t, const float *g, const float *w,
                           float *state, float *d, size_t n)
{
    (void)w;
    increments(ps_adam_factors_of(params, t), g, state, state + n, d, n);
}

static void adam_step(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                      size_t n)
{
    steps(ps_adam_factors_of(params, t), g, state, state + n, w, n);
}

const ps_optim ps_optim_adam = {
    .name = "adam",
    .summary = "d = lr * mhat / (sqrt(vhat) + epsilon), moments m and v of g and g^2 "
               "corrected for bias (Kingma and Ba 2015)",
    .params = adam_params,
    .slots = 2,
    .increment = adam_increment,
    .step = adam_step,
};
