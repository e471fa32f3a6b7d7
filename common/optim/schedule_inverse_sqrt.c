/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_inverse_sqrt.c - the rate falls with the root of the number of steps. If `every` is
 * 1, step t (from 1) has the factor 1 / sqrt(t), as in the rule `decay`; a larger `every` makes
 * it fall slower. */
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
     .help = "steps; the factor is one half after three times as many"},
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
