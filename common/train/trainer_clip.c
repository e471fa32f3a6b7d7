/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_clip.c - gradients cut to the job's limit; see common/optim/clip.h. */
#include "common/train/trainer_impl.h"

static double limit_of(const ps_plan *plan, double share)
{
    return plan->clip_params.v[PS_CLIP_LIMIT] * share;
}

void ps_trainer_clip(ps_trainer *t, float *g, uint32_t first_variable, uint32_t count, double share)
{
    const ps_plan *plan = t->plan;

    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        float *x = g + var->at;

        if (var->is_state) {
            continue;
        }
        switch (plan->clip->unit) {
        case PS_CLIP_NOTHING:
        case PS_CLIP_ALL:
            return;
        case PS_CLIP_VALUE:
            ps_clip_values(x, var->size, (float)limit_of(plan, share));
            break;
        case PS_CLIP_VARIABLE:
            ps_clip_to_norm(x, var->size, ps_clip_square_sum(x, var->size), limit_of(plan, share));
            break;
        }
    }
}

void ps_trainer_clip_all(ps_trainer *t, float *g, double share, ps_model_ready_fn *ready)
{
    const ps_layout *layout = &t->plan->layout;
    const ps_variable *var = layout->variables;
    double sum = 0.0;

    for (uint32_t v = 0; v < layout->variable_count; v++) {
        sum += var[v].is_state ? 0.0 : ps_clip_square_sum(g + var[v].at, var[v].size);
    }
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        if (!var[v].is_state) {
            ps_clip_to_norm(g + var[v].at, var[v].size, sum, limit_of(t->plan, share));
        }
    }
    for (uint32_t end = layout->variable_count, v = end; v > 0; v--) {
        if (v == 1 || var[v - 2].layer != var[v - 1].layer) {
            ready(t, v - 1, end - (v - 1));
            end = v - 1;
        }
    }
}
