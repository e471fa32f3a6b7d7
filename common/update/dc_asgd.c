/* SPDX-License-Identifier: Apache-2.0 */
/* dc_asgd.c - asynchronous SGD with delay compensation (Zheng et al. 2017).
 *
 * Each of the N workers sends the mean gradient over its samples. Servers correct it for the change
 * of the weights since the worker received them (common/store/delay.h). Each contribution is
 * multiplied by 1 / N, so those of all workers make one whole step, as under `gradient`.
 */
#include "common/update/update.h"

enum { LAMBDA, DECAY };

static const ps_param dc_asgd_params[] = {
    {.name = "lambda",
     .value = 2,
     .min = 0,
     .max = 1000,
     .help = "strength of the correction; the paper uses 2 with an adaptive lambda, 0.04 with a "
             "constant one"},
    {.name = "decay",
     .value = 0.95,
     .min = 0,
     .max = 0.999999,
     .help = "decay of the mean of squared gradients that lambda adapts to; 0: lambda is constant"},
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
    .summary = "each worker's mean gradient; servers correct it for its delay (DC-ASGD)",
    .params = dc_asgd_params,
    .per_block = false,
    .block_scale = dc_asgd_block_scale,
    .merge_scale = dc_asgd_merge_scale,
    .delay = dc_asgd_delay,
};
