/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_inverse_sqrt.c - with the root of the number of steps: 1 / sqrt(t), t from 1,
 * where `every` is 1, as the rule `decay`; slower with a larger one.
 */
#include "common/optim/schedule.h"

#include <math.h>

enum { EVERY = PS_WARMUP_PARAMS };

static const ps_param inverse_sqrt_params[] = {
    PS_WARMUP_PARAM_LINES,
    {.name = "every",
     .value = 1,
     .min = 1,
     .max = 1e12,
     .is_integer = true,
     .help = "steps; after three times as many the factor is one half"},
    {.name = NULL},
};

static double inverse_sqrt_factor(const ps_params *params, uint64_t s, uint64_t total)
{
    (void)total;
    return sqrt(params->v[EVERY] / (params->v[EVERY] + (double)s));
}

const ps_schedule ps_schedule_inverse_sqrt = {
    .name = "inverse_sqrt",
    .summary = "sqrt(every / (every + s))",
    .params = inverse_sqrt_params,
    .factor = inverse_sqrt_factor,
};
