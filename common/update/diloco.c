/* SPDX-License-Identifier: Apache-2.0 */
/* diloco.c - many local steps of AdamW, then Nesterov's rule at the servers on the mean of the
 * workers' differences: w -= outer(mean (w - x_i)) (Douillard et al. 2023; with other outer
 * rules: SlowMo, FedOpt). The state of the local rule stays on its worker. */
#include "common/update/update.h"

static const ps_param diloco_params[] = {
    PS_LOCAL_STEPS_PARAM(64),
    {.name = NULL},
};

static const ps_local diloco_local = {
    .inner = {.name = "adamw"},
    .outer = PS_LOCAL_OUTER_NESTEROV,
    .steps = ps_local_steps,
    .contribute = ps_local_contribute_mean,
};

const ps_update ps_update_diloco = {
    .name = "diloco",
    .summary = "rounds of local AdamW steps, Nesterov at the servers on their mean (DiLoCo)",
    .params = diloco_params,
    .merge_scale = ps_update_merge_sum,
    .local = &diloco_local,
};
