/* SPDX-License-Identifier: Apache-2.0 */
/* dc_asgd.c - asynchronous descent with compensated delay (Zheng et al. 2017): each
 * worker sends the mean gradient over its samples; servers correct it for what the
 * weights went through since they were given to it (common/store/delay.h), and
 * step by an N-th, so that N of them are one whole step, as under gradient. */
#include "common/update/update.h"

enum { LAMBDA, DECAY };

static const ps_param dc_asgd_params[] = {
    {.name = "lambda",
     .value = 2,
     .min = 0,
     .max = 1000,
     .help = "strength of the correction; the paper has 2 when adaptive, 0.04 when not"},
    {.name = "decay",
     .value = 0.95,
     .min = 0,
     .max = 0.999999,
     .help = "of the mean of squared gradients that lambda adapts to; 0: lambda is constant"},
    {.name = NULL},
};

static float dc_asgd_block_scale(const ps_update_facts *f)
{
    return (float)((double)f->workers /
                   ((double)f->block_size * (double)f->block_count * (double)f->redundancy));
}

static float dc_asgd_merge_scale(const ps_update_facts *f)
{
    return (float)(1.0 / (double)f->workers);
}

static void dc_asgd_delay(const ps_params *params, double *lambda, double *decay)
{
    *lambda = params->v[LAMBDA];
    *decay = params->v[DECAY];
}

const ps_update ps_update_dc_asgd = {
    .name = "dc_asgd",
    .summary = "each worker's mean gradient, corrected by the servers for its delay (DC-ASGD)",
    .params = dc_asgd_params,
    .per_block = false,
    .block_scale = dc_asgd_block_scale,
    .merge_scale = dc_asgd_merge_scale,
    .delay = dc_asgd_delay,
};
