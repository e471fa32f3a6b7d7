/* SPDX-License-Identifier: Apache-2.0 */
/* asp.c - asynchronous: contributions are applied as they come, and nobody
 * waits for anybody. */
#include "common/consistency/consistency.h"

static uint64_t asp_lead(const ps_params *params)
{
    (void)params;
    return UINT64_MAX;
}

static bool asp_admit(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock)
{
    (void)params;
    (void)c;
    (void)worker;
    (void)clock;
    return true;
}

static ps_verdict asp_on_push(const ps_params *params, const ps_clocks *c, uint32_t worker,
                              uint64_t clock, float *scale)
{
    (void)params;
    (void)c;
    (void)worker;
    (void)clock;
    *scale = 1.0f;
    return PS_APPLY;
}

static bool asp_on_pull(const ps_params *params, const ps_clocks *c, uint32_t worker,
                        uint64_t clock)
{
    (void)params;
    (void)c;
    (void)worker;
    (void)clock;
    return true;
}

const ps_consistency ps_consistency_asp = {
    .name = "asp",
    .summary = "applied on arrival; nobody waits",
    .is_deterministic = false,
    .survives_loss = true,
    .asks_early = false,
    .lead = asp_lead,
    .admit = asp_admit,
    .on_push = asp_on_push,
    .on_pull = asp_on_pull,
};
