/* SPDX-License-Identifier: Apache-2.0 */
/* stale_scaled.c - asynchronous with shorter steps for stale contributions (Zhang et al. 2016,
 * arXiv 1511.05950; the polynomial form of Xie et al. 2019, arXiv 1903.03934).
 *
 * The step of a contribution is multiplied by
 *
 *   1 / (1 + max(0, tau - free))^power
 *
 * tau, the staleness, is the number of updates of the slice between giving it to the worker and the
 * worker's contribution. The policy scales the step and not the gradient: adam and its like ignore
 * the scale of gradients, so scaled gradients would not shorten their steps.
 */
#include "common/consistency/rounds.h"

#include <math.h>

enum { POWER, FREE };

static const ps_param stale_scaled_params[] = {
    {.name = "power",
     .value = 1,
     .min = 0,
     .max = 8,
     .help = "exponent; 0: no scaling, 0.5: square root"},
    {.name = "free",
     .value = 0,
     .min = 0,
     .max = 1000000,
     .is_integer = true,
     .help = "staleness that does not shorten the step; workers of equal speed have workers - 1"},
    {.name = NULL},
};

static ps_verdict stale_scaled_on_push(const ps_params *params, const ps_clocks *c,
                                       const ps_arrival *a, float *scale)
{
    double tau = (double)a->staleness - params->v[FREE];

    (void)c;
    *scale = (float)(1.0 / pow(1.0 + (tau > 0 ? tau : 0), params->v[POWER]));
    return PS_APPLY;
}

const ps_consistency ps_consistency_stale_scaled = {
    .name = "stale_scaled",
    .summary = "applied on arrival, the step divided by (1 + staleness)^`power`; no worker waits",
    .params = stale_scaled_params,
    .survives_loss = true,
    .lead = any_lead,
    .admit = always,
    .on_push = stale_scaled_on_push,
    .on_pull = always,
};
