/* SPDX-License-Identifier: Apache-2.0 */
/* bsp.c - bulk synchronous (Valiant 1990): every worker computes clock c on weights that
 * contain exactly the contributions to the clocks before c. */
#include "common/consistency/rounds.h"

static ps_verdict bsp_on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                              float *scale)
{
    (void)params;
    (void)c;
    (void)a;
    (void)scale;
    return PS_BUFFER;
}

static bool bsp_closes(const ps_params *params, const ps_clocks *c, float *scale)
{
    (void)params;
    (void)scale;
    return all_are_in(c);
}

const ps_consistency ps_consistency_bsp = {
    .name = "bsp",
    .summary =
        "a step waits for the contributions of all workers; the same seed gives the same bits",
    .is_deterministic = true,
    .asks_early = true,
    .has_rounds = true,
    .lead = no_lead,
    .admit = is_its_round,
    .on_push = bsp_on_push,
    .on_pull = is_its_round,
    .closes = bsp_closes,
};
