/* SPDX-License-Identifier: Apache-2.0 */
/* delta.c - the servers subtract the sum of the increments that each worker i made by its own rule:
 * w -= sum_i (w - x_i).
 *
 * N workers move the weights N times as far as one. With asp each contribution is applied on
 * arrival. State of layers is averaged, because a sum of running means is not a running mean.
 */
#include "common/update/update.h"

static const ps_param delta_params[] = {
    PS_LOCAL_STEPS_PARAM(1),
    {.name = NULL},
};

static void delta_contribute(const ps_round *round, const ps_stretch *v)
{
    if (v->is_state) {
        ps_local_contribute_mean(round, v);
        return;
    }
    ps_local_contribute_sum(round, v);
}

static const ps_local delta_local = {
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .contribute = delta_contribute,
    .contribute_rows = ps_local_contribute_sum,
};

const ps_update ps_update_delta = {
    .name = "delta",
    .summary = "servers add the increments that each worker's own rule made",
    .params = delta_params,
    .merge_scale = ps_update_merge_sum,
    .local = &delta_local,
};
