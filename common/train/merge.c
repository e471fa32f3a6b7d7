/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - see merge.h. */
#include "common/train/merge.h"

#include "common/base/xalloc.h"

#include <stdlib.h>

static ps_delay delay_of(const ps_plan *plan)
{
    ps_delay delay = {0};

    if (plan->update->delay != NULL) {
        plan->update->delay(&plan->update_params, &delay.lambda, &delay.decay);
    }
    return delay;
}

ps_shard *ps_merge_shard(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights)
{
    const ps_assignment *a = plan->assignment;
    bool per_block = plan->update->per_block;
    ps_shard_slice *list = ps_xcalloc((size_t)count + 1, sizeof *list);
    ps_shard_conf conf = {
        .workers = plan->spec->workers,
        .contributors = per_block ? a->block_count : plan->spec->workers,
        .held_count = per_block ? a->held_count : NULL,
        .held = per_block ? (const uint32_t *const *)a->held : NULL,
        .policy = plan->policy,
        .policy_params = plan->policy_params,
        .descent = plan->optim_on_server ? plan->descent : (ps_descent){0},
        .merge_scale = plan->update->merge_scale(&plan->update_facts),
        .seed = plan->spec->seed,
        .delay = delay_of(plan),
        .broadcasts = plan->update->broadcasts,
        .slice_count = count,
        .slices = list,
        .weights = weights,
    };
    ps_shard *shard;

    for (uint32_t i = 0; i < count; i++) {
        const ps_slice *slice = &plan->layout.slices[slices[i]];
        const ps_variable *var = &plan->layout.variables[slice->variable];
        const ps_codec_choice *down = &plan->down[slice->variable];
        bool by_rows = plan->by_rows[slice->variable];

        list[i] = (ps_shard_slice){
            .index = slice->index,
            .n = slice->n,
            .up = plan->up[slice->variable].codec,
            .up_params = plan->up[slice->variable].params,
            .down = down->codec,
            .down_params = down->params,
            .is_state = var->is_state,
            .row = by_rows ? var->shape.dim[1] : 0,
            .gives_rows = by_rows && ps_codec_is_plain(down->codec, &down->params),
        };
    }
    shard = ps_shard_create(&conf);
    free(list);
    return shard;
}

bool ps_merge_may_overtake(const ps_plan *plan)
{
    return plan->policy->leaves_behind ||
           (plan->update->per_block && plan->update_facts.redundancy > 1 &&
            plan->policy->is_deterministic);
}
