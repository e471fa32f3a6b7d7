/* SPDX-License-Identifier: Apache-2.0 */
/* geo_sum_lag.c - Paddle Fleet's geo: a worker sends a T-th of what it is ahead of
 * what it believes the servers have, and takes their changes into its own weights
 * while it trains on; T workers. As old moves by what was sent alone, the rest
 * is sent in the rounds after: the servers reach the sum of what all workers did,
 * geometrically with the factor 1 - 1/T.
 *     receive: x += w - old; old = w
 *     send:    d = (x - old) / T; old += d; w += d at the servers
 * Dense variables send all of what is left in every round, so no row is left
 * behind; of layers' state the mean is taken, as in geo_average. */
#include "common/update/update.h"

static const ps_param geo_sum_lag_params[] = {
    PS_LOCAL_STEPS_PARAM(25),
    {.name = NULL},
};

static void geo_sum_lag_contribute(const ps_round *round, const ps_stretch *v)
{
    float part = (float)(1.0 / (double)round->workers), *old = v->slots;

    if (v->is_state) {
        ps_local_contribute_forward(round, v);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        float x = v->x[i] + (v->w[i] - old[i]), d = part * (x - v->w[i]);

        v->x[i] = x;
        v->p[i] = -d;
        old[i] = v->w[i] + d;
    }
}

static const ps_local geo_sum_lag_local = {
    .is_overlapped = true,
    .slots = 1,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = geo_sum_lag_contribute,
};

const ps_update ps_update_geo_sum_lag = {
    .name = "geo_sum_lag",
    .summary = "sends a share of what it is ahead and keeps the rest: a sum with lag (Fleet's geo)",
    .params = geo_sum_lag_params,
    .merge_scale = ps_update_merge_sum,
    .local = &geo_sum_lag_local,
};
