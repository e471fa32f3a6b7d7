/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_step.c - the rate drops once in `every` steps (StepLR of PyTorch). */
#include "common/optim/loops.h"
#include "common/optim/schedule.h"

enum { GAMMA = PS_WARMUP_PARAMS, EVERY };

static const ps_param step_params[] = {
    PS_WARMUP_PARAM_LINES,
    {.name = "gamma", .value = 0.1, .min = 0, .max = 1, .help = "factor of each drop"},
    {.name = "every",
     .value = 0,
     .min = 0,
     .max = 1e12,
     .is_integer = true,
     .help = "steps between drops; 0: a third of the job"},
    {.name = NULL},
};

static double step_factor(const ps_params *params, uint64_t s, uint64_t total)
{
    return ps_power(params->v[GAMMA], s / ps_schedule_steps(params->v[EVERY], (total + 2) / 3));
}

const ps_schedule ps_schedule_step = {
    .name = "step",
    .summary = "gamma^floor(s / every)",
    .params = step_params,
    .factor = step_factor,
};
