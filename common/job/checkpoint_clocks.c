/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_clocks.c - see checkpoint_clocks.h. */
#include "common/job/checkpoint_clocks.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t steps_of(const ps_plan *plan, uint64_t clock)
{
    const ps_local *local = plan->update->local;

    return local != NULL ? local->steps(&plan->update_params, clock) : 1;
}

/* Returns the clock from which on all clocks have the same number of steps. */
static uint64_t settled(const ps_plan *plan)
{
    const ps_local *local = plan->update->local;

    return local != NULL && local->settles != NULL ? local->settles(&plan->update_params) : 0;
}

uint64_t ps_checkpoint_step(const ps_plan *plan, uint64_t clock)
{
    uint64_t step = 0, from = settled(plan), varying = clock < from ? clock : from;

    for (uint64_t c = 0; c < varying; c++) {
        step += steps_of(plan, c);
    }
    step += (clock - varying) * steps_of(plan, from);
    return step < plan->total_steps ? step : plan->total_steps;
}

uint64_t ps_checkpoint_clock(const ps_plan *plan, uint64_t step)
{
    return plan->update->local != NULL
               ? ps_local_clocks(plan->update->local, &plan->update_params, step)
               : step;
}

uint64_t ps_checkpoint_next(const ps_plan *plan, uint64_t clock)
{
    const Psgd__V1__CheckpointSpec *spec = plan->spec->checkpoint;
    uint64_t every = spec != NULL ? spec->every_steps : 0, step, next;

    if (every == 0 || clock >= plan->total_clocks) {
        return 0;
    }
    step = ps_checkpoint_step(plan, clock) / every * every + every;
    if (step >= plan->total_steps) {
        return 0;
    }
    next = ps_checkpoint_clock(plan, step);
    return next < plan->total_clocks ? next : 0;
}

uint64_t ps_checkpoint_last(const ps_plan *plan, uint64_t clock)
{
    const Psgd__V1__CheckpointSpec *spec = plan->spec->checkpoint;
    uint64_t every = spec != NULL ? spec->every_steps : 0;

    return every > 0 ? ps_checkpoint_clock(plan, ps_checkpoint_step(plan, clock) / every * every)
                     : 0;
}

void ps_checkpoint_store_name(char out[PS_CHECKPOINT_NAME_MAX], uint32_t server, uint32_t thread)
{
    snprintf(out, PS_CHECKPOINT_NAME_MAX, "server-%05" PRIu32 "-%02" PRIu32 ".state", server,
             thread);
}

void ps_checkpoint_rank_name(char out[PS_CHECKPOINT_NAME_MAX], uint32_t rank)
{
    snprintf(out, PS_CHECKPOINT_NAME_MAX, "rank-%05" PRIu32 ".state", rank);
}

void ps_checkpoint_kept_name(char out[PS_CHECKPOINT_NAME_MAX], uint32_t rank)
{
    snprintf(out, PS_CHECKPOINT_NAME_MAX, "kept-%" PRIu32, rank);
}
