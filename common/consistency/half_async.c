/* SPDX-License-Identifier: Apache-2.0 */
/* half_async.c - steps on the sum of what has arrived (the half-async mode of PaddlePaddle's
 * 1.x parameter servers, here on the server).
 *
 * There are no rounds: a step takes the sum of the contributions, of any clocks, that arrive
 * within wait_ms of the first one. It is made earlier if `merge` of them have arrived, or as many
 * as there are contributors that are not lost. A worker waits until the step that contains its own
 * contribution.
 *
 * The state of each worker: the version of the slice after the step with its last contribution.
 */
#include "common/consistency/rounds.h"

enum { MERGE, WAIT_MS };

static const ps_param half_async_params[] = {
    {.name = "merge",
     .value = 0,
     .min = 0,
     .max = 65536,
     .is_integer = true,
     .help = "most contributions of a step; 0: as many as there are contributors"},
    {.name = "wait_ms",
     .value = 10,
     .min = 0,
     .max = 3600000,
     .help = "milliseconds from the first contribution to the step on what has arrived"},
    {.name = NULL},
};

static size_t half_async_words(uint32_t workers, uint32_t contributors)
{
    (void)contributors;
    return workers;
}

static ps_verdict half_async_on_push(const ps_params *params, const ps_clocks *c,
                                     const ps_arrival *a, float *scale)
{
    (void)params;
    (void)scale;
    c->state[a->worker] = c->version + 1;
    return PS_BUFFER;
}

static bool half_async_on_pull(const ps_params *params, const ps_clocks *c, uint32_t worker,
                               uint64_t clock)
{
    return has_own_pushes(params, c, worker, clock) && c->version >= c->state[worker];
}

static int64_t half_async_closes_at(const ps_params *params, const ps_clocks *c)
{
    return c->in > 0 ? c->first_us + us_of_ms(params->v[WAIT_MS]) : INT64_MAX;
}

static bool half_async_closes(const ps_params *params, const ps_clocks *c, float *scale)
{
    uint32_t merge = (uint32_t)params->v[MERGE];

    (void)scale; /* stays 1: the step takes the sum of contributions, not their mean */
    return c->in > 0 && (c->in >= c->live || (merge > 0 && c->in >= merge) ||
                         c->now_us >= half_async_closes_at(params, c));
}

const ps_consistency ps_consistency_half_async = {
    .name = "half_async",
    .summary =
        "a step on the sum of what arrived within `wait_ms` of the first contribution; no rounds",
    .params = half_async_params,
    .survives_loss = true,
    .words = half_async_words,
    .lead = any_lead,
    .admit = always,
    .on_push = half_async_on_push,
    .on_pull = half_async_on_pull,
    .closes = half_async_closes,
    .closes_at = half_async_closes_at,
};
