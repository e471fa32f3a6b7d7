/* SPDX-License-Identifier: Apache-2.0 */
/* fedprox.c - fedavg with a proximal term (Li et al. 2020): mu / 2 |x - w|^2 is added to the local
 * loss, so mu (x - w) is added to the gradient. x is the replica, w the weights with which the
 * round began. */
#include "common/update/update.h"

enum { STEPS, FRACTION, MU };

static const ps_param fedprox_params[] = {
    PS_LOCAL_STEPS_PARAM(32),
    {.name = "fraction",
     .value = 1,
     .min = 0.001,
     .max = 1,
     .help = "share of the workers that each round draws"},
    {.name = "mu",
     .value = 0.1,
     .min = 0,
     .max = 1000,
     .help = "strength of the attraction of a replica to the shared weights"},
    {.name = NULL},
};

static double fedprox_fraction(const ps_params *params)
{
    return params->v[FRACTION];
}

static void fedprox_adjust(const ps_round *round, const ps_stretch *v)
{
    float mu = (float)round->params->v[MU];

    for (size_t i = 0; i < v->n; i++) {
        v->g[i] += mu * (v->x[i] - v->w[i]);
    }
}

static const ps_local fedprox_local = {
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .fraction = fedprox_fraction,
    .adjust = fedprox_adjust,
    .contribute = ps_local_contribute_mean,
};

const ps_update ps_update_fedprox = {
    .name = "fedprox",
    .summary = "fedavg with mu / 2 |x - w|^2 in each worker's loss (FedProx)",
    .params = fedprox_params,
    .merge_scale = ps_update_merge_sum,
    .local = &fedprox_local,
};
