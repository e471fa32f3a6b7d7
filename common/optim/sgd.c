/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.c - a step down the gradient. */
#include "common/base/clones.h"
#include "common/optim/optim.h"

enum { RATE };

static const ps_param sgd_params[] = {
    {.name = "lr", .value = 0.01, .min = 0, .max = 1000, .help = "factor of the gradient"},
    {.name = NULL},
};

PS_CLONES static void increments(float rate, const float *restrict g, float *restrict d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        d[i] = rate * g[i];
    }
}

PS_CLONES static void increments_in_place(float rate, float *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        d[i] = rate * d[i];
    }
}

PS_CLONES static void steps(float rate, const float *restrict g, float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= rate * g[i];
    }
}

static void sgd_increment(const ps_params *params, uint64_t t, const float *g, float *state,
                          float *d, size_t n)
{
    float rate = (float)params->v[RATE];

    (void)t;
    (void)state;
    if (d == g) {
        increments_in_place(rate, d, n);
    } else {
        increments(rate, g, d, n);
    }
}

static void sgd_step(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                     size_t n)
{
    (void)t;
    (void)state;
    steps((float)params->v[RATE], g, w, n);
}

const ps_optim ps_optim_sgd = {
    .name = "sgd",
    .summary = "d = lr * g",
    .params = sgd_params,
    .slots = 0,
    .increment = sgd_increment,
    .step = sgd_step,
};
