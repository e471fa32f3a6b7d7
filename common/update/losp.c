/* SPDX-License-Identifier: Apache-2.0 */
/* losp.c - OSP with local compensation (Wang et al., IEEE JSAC 39(8) 2021): the worker continues
 * from V - gamma G_i, where V are the weights that it has just received (osp.c), and G_i is the sum
 * of its gradients of the round that is being exchanged.
 *
 * If the local rule is sgd with learning rate eta, the worker's increments are P_i = eta G_i. So
 *
 *     w = w - mean P_i, x_i = V - (gamma / eta) P_i,
 *
 * and this form holds for any local rule. The number `compensation` is gamma / eta. The paper
 * uses 1.5 (0.0006 / 0.0004) with steps so small that a round changes the weights little. With a
 * number above 1 the worker moves further than its own steps do, and oscillates if a round
 * changes the weights a lot.
 */
#include "common/update/update.h"

static const ps_param losp_params[] = {
    PS_LOCAL_STEPS_PARAM(16),
    PS_LOCAL_COMPENSATION_PARAM,
    PS_LOCAL_AT_MOST_PARAM,
    {.name = NULL},
};

static const ps_local losp_local = {
    .is_overlapped = true,
    .slots = 1,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = ps_local_contribute_compensated,
};

const ps_update ps_update_losp = {
    .name = "losp",
    .summary = "osp whose worker goes on from its own part of the round (LOSP)",
    .params = losp_params,
    .merge_scale = ps_update_merge_sum,
    .local = &losp_local,
};
