/* SPDX-License-Identifier: Apache-2.0 */
/* bsp.c - bulk synchronous: every worker computes clock c on the weights that
 * have seen every contribution to the clocks before c, and nothing else. */
#include "common/consistency/consistency.h"

static uint64_t bsp_lead(const ps_params *params)
{
    (void)params;
    return 0;
}

static bool bsp_admit(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock)
{
    (void)params;
    (void)worker;
    return clock <= c->least;
}

static ps_verdict bsp_on_push(const ps_params *params, const ps_clocks *c, uint32_t worker,
                              uint64_t clock, float *scale)
{
    (void)params;
    (void)c;
    (void)worker;
    (void)clock;
    *scale = 1.0f;
    return PS_BUFFER;
}

static bool bsp_on_pull(const ps_params *params, const ps_clocks *c, uint32_t worker,
                        uint64_t clock)
{
    (void)params;
    (void)worker;
    return clock <= c->least;
}

const ps_consistency ps_consistency_bsp = {
    .name = "bsp",
    .summary = "a step waits for the contributions of all workers; same seed, same bits",
    .is_deterministic = true,
    .survives_loss = false,
    .asks_early = true,
    .lead = bsp_lead,
    .admit = bsp_admit,
    .on_push = bsp_on_push,
    .on_pull = bsp_on_pull,
};
