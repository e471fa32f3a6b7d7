/* SPDX-License-Identifier: Apache-2.0 */
/* localsgd.c - K local steps, then the mean of all replicas: w = sum a_i x_i (Stich 2019). Under
 * bsp a round begins on weights that contain the round before. The localSGD of JSAC2020, an older
 * system, was meant to do that but pulls before it pushes. */
#include "common/update/update.h"

static const ps_param localsgd_params[] = {
    PS_LOCAL_STEPS_PARAM(16),
    {.name = NULL},
};

static const ps_local localsgd_local = {
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .contribute = ps_local_contribute_mean,
    .contribute_rows = ps_local_contribute_mean,
};

const ps_update ps_update_localsgd = {
    .name = "localsgd",
    .summary = "`steps` local steps, then the mean of all replicas (local SGD)",
    .params = localsgd_params,
    .merge_scale = ps_update_merge_sum,
    .local = &localsgd_local,
};
