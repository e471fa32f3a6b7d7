/* SPDX-License-Identifier: Apache-2.0 */
/* fedavg.c - federated averaging (McMahan et al. 2017): each round draws M of the N workers,
 * which take K local steps. The weights become the mean of their replicas weighed by samples, w =
 * sum n_i x_i / sum n_i, or with by_samples 0 the plain mean. A worker that is not drawn sends no
 * values and skips the samples of the round. */
#include "common/update/update.h"

enum { STEPS, FRACTION, BY_SAMPLES };

static const ps_param fedavg_params[] = {
    PS_LOCAL_STEPS_PARAM(32),
    {.name = "fraction",
     .value = 1,
     .min = 0.001,
     .max = 1,
     .help = "share of the workers that each round draws"},
    {.name = "by_samples",
     .value = 1,
     .min = 0,
     .max = 1,
     .is_integer = true,
     .help = "1: replicas are weighed by their samples, 0: equally"},
    {.name = NULL},
};

static double fedavg_fraction(const ps_params *params)
{
    return params->v[FRACTION];
}

static bool fedavg_by_samples(const ps_params *params)
{
    return params->v[BY_SAMPLES] > 0;
}

static const ps_local fedavg_local = {
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .fraction = fedavg_fraction,
    .by_samples = fedavg_by_samples,
    .contribute = ps_local_contribute_mean,
};

const ps_update ps_update_fedavg = {
    .name = "fedavg",
    .summary =
        "rounds of `steps` local steps by a drawn `fraction` of the workers, averaged by samples",
    .params = fedavg_params,
    .merge_scale = ps_update_merge_sum,
    .local = &fedavg_local,
};
