/* SPDX-License-Identifier: Apache-2.0 */
/* quorum.c - synchronous with a deadline (partial collectives of Li et al. 2020, arXiv
 * 1908.04207; time windows of Bonawitz et al. 2019).
 *
 * A step takes the mean of the contributions that have arrived. It is made when those of all
 * workers that are not lost have arrived, or when wait_ms have passed since the first and at least
 * `quorum` have arrived. A late contribution is added to the step that is open on its arrival, so
 * nothing is lost; it counts neither for the quorum nor as the first of that step. With wait_ms 0
 * only the quorum decides, with quorum 1 only the deadline.
 */
#include "common/consistency/rounds.h"

enum { QUORUM, WAIT_MS };

static const ps_param quorum_params[] = {
    {.name = "quorum",
     .value = 1,
     .min = 1,
     .max = 65536,
     .is_integer = true,
     .help = "fewest contributions of a step that is made without the others"},
    {.name = "wait_ms",
     .value = 1000,
     .min = 0,
     .max = 3600000,
     .help =
         "milliseconds from the first contribution of a step after which it does not wait for all"},
    {.name = NULL},
};

static ps_status quorum_check(const ps_params *params, uint32_t contributors)
{
    if (params->v[QUORUM] > contributors) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "quorum is %.0f; it may be at most %u, the number of contributions of a step",
            params->v[QUORUM], contributors);
    }
    return ps_ok();
}

static ps_verdict quorum_on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                                 float *scale)
{
    (void)params;
    (void)c;
    (void)a;
    (void)scale;
    return PS_BUFFER;
}

static int64_t quorum_closes_at(const ps_params *params, const ps_clocks *c)
{
    return c->due >= (uint32_t)params->v[QUORUM] ? c->first_us + us_of_ms(params->v[WAIT_MS])
                                                 : INT64_MAX;
}

static bool quorum_closes(const ps_params *params, const ps_clocks *c, float *scale)
{
    *scale = mean_scale(c);
    return all_are_in(c) || c->now_us >= quorum_closes_at(params, c);
}

const ps_consistency ps_consistency_quorum = {
    .name = "quorum",
    .summary = "a step waits for all, after `wait_ms` only for `quorum`; late "
               "contributions join the next step",
    .params = quorum_params,
    .survives_loss = true,
    .has_rounds = true,
    .leaves_behind = true,
    .check = quorum_check,
    .lead = no_lead,
    .admit = is_its_round,
    .on_push = quorum_on_push,
    .on_pull = is_its_round,
    .closes = quorum_closes,
    .closes_at = quorum_closes_at,
};
