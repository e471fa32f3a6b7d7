/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_clip.c - clips gradients to the job's limit; see common/optim/clip.h. */
#include "common/train/trainer_impl.h"

static double limit_of(const ps_plan *plan, double share)
{
    return plan->clip_params.v[PS_CLIP_LIMIT] * share;
}

/* Values of a gradient outside of which it is zero: all values of a variable, or one touched
 * row. */
typedef struct stretch {
    float *x;
    size_t n;
} stretch;

static stretch stretch_at(const ps_trainer *t, float *g, uint32_t v, const uint32_t *ids, size_t i)
{
    const ps_variable *var = &t->plan->layout.variables[v];

    return ids == NULL
               ? (stretch){g + var->at, var->size}
               : (stretch){g + var->at + (size_t)ids[i] * var->shape.dim[1], var->shape.dim[1]};
}

static double square_sum(ps_trainer *t, float *g, uint32_t v)
{
    size_t count;
    const uint32_t *ids = ps_trainer_touched(t, v, &count);
    double sum = 0.0;

    for (size_t i = 0; i < count; i++) {
        stretch s = stretch_at(t, g, v, ids, i);

        sum += ps_clip_square_sum(s.x, s.n);
    }
    return sum;
}

static void clip_values(ps_trainer *t, float *g, uint32_t v, float limit)
{
    size_t count;
    const uint32_t *ids = ps_trainer_touched(t, v, &count);

    for (size_t i = 0; i < count; i++) {
        stretch s = stretch_at(t, g, v, ids, i);

        ps_clip_values(s.x, s.n, limit);
    }
}

static void clip_to_norm(ps_trainer *t, float *g, uint32_t v, double sum, double limit)
{
    size_t count;
    const uint32_t *ids = ps_trainer_touched(t, v, &count);

    for (size_t i = 0; i < count; i++) {
        stretch s = stretch_at(t, g, v, ids, i);

        ps_clip_to_norm(s.x, s.n, sum, limit);
    }
}

void ps_trainer_clip(ps_trainer *t, float *g, uint32_t first_variable, uint32_t count, double share)
{
    const ps_plan *plan = t->plan;

    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        if (plan->layout.variables[v].is_state) {
            continue;
        }
        switch (plan->clip->unit) {
        case PS_CLIP_NOTHING:
        case PS_CLIP_ALL:
            return;
        case PS_CLIP_VALUE:
            clip_values(t, g, v, (float)limit_of(plan, share));
            break;
        case PS_CLIP_VARIABLE:
            clip_to_norm(t, g, v, square_sum(t, g, v), limit_of(plan, share));
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
        sum += var[v].is_state ? 0.0 : square_sum(t, g, v);
    }
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        if (!var[v].is_state) {
            clip_to_norm(t, g, v, sum, limit_of(t->plan, share));
        }
    }
    for (uint32_t end = layout->variable_count, v = end; v > 0; v--) {
        if (v == 1 || var[v - 2].layer != var[v - 1].layer) {
            ready(t, v - 1, end - (v - 1));
            end = v - 1;
        }
    }
}
