/* SPDX-License-Identifier: Apache-2.0 */
/* asp.c - asynchronous (Recht et al. 2011; Dean et al. 2012): each contribution is a step of its
 * own on arrival, and no worker waits for another. */
#include "common/consistency/rounds.h"

static ps_verdict asp_on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                              float *scale)
{
    (void)params;
    (void)c;
    (void)a;
    (void)scale;
    return PS_APPLY;
}

const ps_consistency ps_consistency_asp = {
    .name = "asp",
    .summary = "each contribution is applied on arrival; no worker waits",
    .survives_loss = true,
    .lead = any_lead,
    .admit = always,
    .on_push = asp_on_push,
    .on_pull = always,
};
