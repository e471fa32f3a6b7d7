/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_exponential.c - the rate is multiplied by the same factor in each step
 * (ExponentialLR of PyTorch if `every` is 1). */
#include "common/base/steady.h"
#include "common/optim/schedule.h"

enum { GAMMA = PS_WARMUP_PARAMS, EVERY };

static const ps_param exponential_params[] = {
    PS_WARMUP_PARAM_LINES,
    {.name = "gamma", .value = 0.1, .min = 1e-9, .max = 1, .help = "factor after `every` steps"},
    {.name = "every",
     .value = 0,
     .min = 0,
     .max = 1e12,
     .is_integer = true,
     .help = "steps until the factor is gamma; 0: the whole job"},
    {.name = NULL},
};

static double exponential_factor(const ps_params *params, uint64_t s, uint64_t total)
{
    return ps_steady_pow(params->v[GAMMA],
                         (double)s / (double)ps_schedule_steps(params->v[EVERY], total));
}

const ps_schedule ps_schedule_exponential = {
    .name = "exponential",
    .summary = "gamma^(s / every)",
    .params = exponential_params,
    .factor = exponential_factor,
};
