/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_constant.c - a constant rate. */
#include "common/optim/schedule.h"

static const ps_param constant_params[] = {
    PS_WARMUP_PARAM_LINES,
    {.name = NULL},
};

static double constant_factor(const ps_params *params, uint64_t s, uint64_t total)
{
    (void)params;
    (void)s;
    (void)total;
    return 1.0;
}

const ps_schedule ps_schedule_constant = {
    .name = "constant",
    .summary = "1, after the warm-up",
    .params = constant_params,
    .factor = constant_factor,
};
