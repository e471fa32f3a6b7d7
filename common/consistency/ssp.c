/* SPDX-License-Identifier: Apache-2.0 */
/* ssp.c - stale synchronous (Ho et al. 2013): each contribution is applied on arrival, and the
 * fastest worker is at most `bound` clocks ahead of the slowest.
 *
 * A worker that begins clock c sees every contribution to the clocks before c - bound, and its
 * own contributions to all clocks before c.
 */
#include "common/consistency/rounds.h"

enum { BOUND };

static const ps_param ssp_params[] = {
    {.name = "bound",
     .value = 3,
     .min = 0,
     .max = 1000000,
     .is_integer = true,
     .help = "clocks that a worker may be ahead of the slowest"},
    {.name = NULL},
};

static uint64_t ssp_lead(const ps_params *params)
{
    return (uint64_t)params->v[BOUND];
}

static bool ssp_admit(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock)
{
    (void)worker;
    return clock <= c->least || clock - c->least <= ssp_lead(params);
}

static ps_verdict ssp_on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                              float *scale)
{
    (void)params;
    (void)c;
    (void)a;
    (void)scale;
    return PS_APPLY;
}

const ps_consistency ps_consistency_ssp = {
    .name = "ssp",
    .summary = "applied on arrival; no worker is more than `bound` clocks ahead of the slowest",
    .params = ssp_params,
    .survives_loss = true,
    .lead = ssp_lead,
    .admit = ssp_admit,
    .on_push = ssp_on_push,
    .on_pull = has_own_pushes,
};
