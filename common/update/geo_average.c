/* SPDX-License-Identifier: Apache-2.0 */
/* geo_average.c - geo with averaging: after a round a worker adds the servers' changes to its own
 * weights x, and keeps the increments that it made in the round. It sends its share a of these
 * increments, and trains on while they travel. `sent` is x as the round began:
 *     receive: x += w - sent
 *     send:    d = a (x - w); sent = x; w += d at the servers.
 * T workers move the weights as far as one. */
#include "common/update/update.h"

static const ps_param geo_average_params[] = {
    PS_LOCAL_STEPS_PARAM(25),
    {.name = NULL},
};

static const ps_local geo_average_local = {
    .is_overlapped = true,
    .slots = 1,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = ps_local_contribute_forward,
};

const ps_update ps_update_geo_average = {
    .name = "geo_average",
    .summary =
        "sends its share of its increments, and continues from all changes plus its own since then",
    .params = geo_average_params,
    .merge_scale = ps_update_merge_sum,
    .local = &geo_average_local,
};
