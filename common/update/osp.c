/* SPDX-License-Identifier: Apache-2.0 */
/* osp.c - overlap synchronization parallel (Wang et al., ICPP 2019): while a round's
 * increments P_i travel, the worker trains on from the weights V that it has just
 * been given, which lack its own P_i and everybody's of that round:
 *     w = w - mean P_i, x_i = V.
 * Where a round goes a part c of the way to its optimum w*, P = c (w of the round before
 * - w*), so a distance d becomes d_(t+1) = d_t - c d_(t-1): from c = 1/4 on it swings, and
 * shrinks by sqrt(c) a round; rounds that get there (c = 1) swing for ever, six of them a
 * period. So few steps, and a rate that falls.
 * Means over layers' state count the worker's own part in, see local.h. */
#include "common/update/update.h"

static const ps_param osp_params[] = {
    PS_LOCAL_STEPS_PARAM(16),
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
    .summary = "trains on while a round is exchanged, from weights without it (OSP)",
    .params = osp_params,
    .merge_scale = ps_update_merge_sum,
    .local = &osp_local,
};
