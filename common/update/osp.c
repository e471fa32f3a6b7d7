/* SPDX-License-Identifier: Apache-2.0 */
/* osp.c - overlap synchronization parallel (Wang et al., ICPP 2019): while the increments P_i of
 * a round are exchanged, the worker trains from the weights V that it has just received. V lacks
 * the P_i of all workers of that round, its own included:
 *
 *     w = w - mean P_i, x_i = V.
 *
 * Suppose that a round moves the weights by the share c of their distance to an optimum w*: P = c
 * (w of the round before - w*). Then the distance d obeys d_(t+1) = d_t - c d_(t-1). From c = 1/4
 * on d oscillates and shrinks by the factor sqrt(c) a round; with c = 1 it oscillates for ever
 * with a period of six rounds. So use few steps a round and a falling learning rate. Means over
 * state of layers include the worker's own part, see local.h.
 */
#include "common/update/update.h"

static const ps_param osp_params[] = {
    PS_LOCAL_STEPS_PARAM(16),
    PS_LOCAL_AT_MOST_PARAM,
    {.name = NULL},
};

static void osp_contribute(const ps_round *round, const ps_stretch *v)
{
    ps_local_contribute_ahead(round, v, 0.0f);
}

static const ps_local osp_local = {
    .is_overlapped = true,
    .slots = 1,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = osp_contribute,
};

const ps_update ps_update_osp = {
    .name = "osp",
    .summary = "trains on during the exchange of a round, from weights without that round (OSP)",
    .params = osp_params,
    .merge_scale = ps_update_merge_sum,
    .local = &osp_local,
};
