/* SPDX-License-Identifier: Apache-2.0 */
/* post_local.c - post-local SGD (Lin et al. 2020): the first `start` rounds have one step, which
 * under bsp is a synchronous mean; later rounds have `steps` steps. */
#include "common/update/update.h"

enum { STEPS, START };

static const ps_param post_local_params[] = {
    PS_LOCAL_STEPS_PARAM(16),
    {.name = "start",
     .value = 100,
     .min = 0,
     .max = 1e6,
     .is_integer = true,
     .help = "rounds of one step before rounds of `steps` begin"},
    {.name = NULL},
};

static uint32_t post_local_steps(const ps_params *params, uint64_t clock)
{
    return (double)clock < params->v[START] ? 1 : (uint32_t)params->v[STEPS];
}

static uint64_t post_local_settles(const ps_params *params)
{
    return (uint64_t)params->v[START];
}

static const ps_local post_local_local = {
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = post_local_steps,
    .settles = post_local_settles,
    .contribute = ps_local_contribute_mean,
    .contribute_rows = ps_local_contribute_mean,
};

const ps_update ps_update_post_local = {
    .name = "post_local",
    .summary = "`start` rounds of one step, then local SGD with rounds of `steps`",
    .params = post_local_params,
    .merge_scale = ps_update_merge_sum,
    .local = &post_local_local,
};
