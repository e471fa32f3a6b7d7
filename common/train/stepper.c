/* SPDX-License-Identifier: Apache-2.0 */
/* stepper.c - see stepper.h. */
#include "common/train/stepper.h"

#include <stdlib.h>

static unsigned slots_of(const ps_plan *plan)
{
    return plan->optim_on_server ? plan->optim->slots : 0;
}

ps_status ps_stepper_init(ps_stepper *stepper, const ps_plan *plan)
{
    size_t count = plan->layout.param_count * slots_of(plan);

    *stepper = (ps_stepper){.plan = plan};
    if (count > 0) {
        stepper->state = calloc(count, sizeof *stepper->state);
    }
    return count == 0 || stepper->state != NULL
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED,
                         "no memory for the state of rule %s over %zu parameters",
                         plan->optim->name, plan->layout.param_count);
}

void ps_stepper_fini(ps_stepper *stepper)
{
    free(stepper->state);
    stepper->state = NULL;
}

size_t ps_stepper_memory(const ps_stepper *stepper)
{
    const ps_plan *plan = stepper->plan;

    return plan->layout.param_count * slots_of(plan) * sizeof *stepper->state;
}

/* Returns the optimizer's state of a variable and sets *n to its number of floats. */
static float *state_of(const ps_stepper *stepper, uint32_t variable, size_t *n)
{
    const ps_variable *var = &stepper->plan->layout.variables[variable];
    unsigned slots = stepper->state == NULL ? 0 : slots_of(stepper->plan);

    *n = var->size * slots;
    return slots == 0 ? NULL : stepper->state + var->at * slots;
}

void ps_stepper_save(const ps_stepper *stepper, uint32_t variable, ps_state_out *out)
{
    size_t n;
    const float *state = state_of(stepper, variable, &n);

    ps_state_put(out, state, n * sizeof *state);
}

void ps_stepper_load(ps_stepper *stepper, uint32_t variable, ps_state_in *in)
{
    size_t n;
    float *state = state_of(stepper, variable, &n);

    ps_state_take(in, state, n * sizeof *state);
}

void ps_stepper_step(ps_stepper *stepper, uint64_t clock, float *sum, float *w)
{
    const ps_plan *plan = stepper->plan;
    float scale = plan->update->merge_scale(&plan->update_facts);
    ps_moment at = {.t = clock + 1, .step = clock, .share = 1.0};

    for (size_t i = 0; scale != 1.0f && i < plan->layout.param_count; i++) {
        sum[i] *= scale;
    }
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        float *g = sum + var->at, *to = w + var->at;

        if (plan->optim_on_server && !var->is_state) {
            ps_descent_step(&plan->descent, at, g, g, to,
                            stepper->state == NULL ? NULL
                                                   : stepper->state + var->at * slots_of(plan),
                            to, var->size);
            continue;
        }
        for (size_t i = 0; i < var->size; i++) {
            to[i] -= g[i];
        }
    }
}
