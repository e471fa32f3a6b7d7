/* SPDX-License-Identifier: Apache-2.0 */
/* check_descent.c - see plan_impl.h: schedule, penalties and clipping of a job's optimizer. */
#include "common/job/plan_impl.h"

#include "common/base/shorten.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double penalty_max = 1000.0;

static void check_penalty(ps_check *check, const char *field, double value)
{
    if (!(value >= 0.0 && value <= penalty_max)) {
        ps_check_bad(check, field, "is %.15g; 0 to %.15g are allowed", value, penalty_max);
    }
}

/* Fills in both optimizers of the plan. Gives schedule and penalties to the one that steps by
 * gradients of the loss: the local one if there is one. */
static void fill(ps_plan *plan, const ps_schedule *schedule, const ps_params *params)
{
    const Psgd__V1__OptimizerSpec *spec = plan->spec->optimizer;
    ps_descent *own = plan->local_optim != NULL ? &plan->local_descent : &plan->descent;

    plan->descent = (ps_descent){
        .optim = plan->optim, .params = plan->optim_params, .total_steps = plan->total_clocks};
    plan->local_descent = (ps_descent){
        .optim = plan->local_optim, .params = plan->local_params, .total_steps = plan->total_steps};
    own->schedule = schedule;
    own->schedule_params = *params;
    own->l1 = spec->l1;
    own->l2 = spec->l2;
    own->halvings = plan->spec->recovery->halvings;
}

static const ps_schedule *check_schedule(ps_check *check, const ps_plan *plan, const char *field,
                                         Psgd__V1__Choice *choice, uint64_t steps,
                                         ps_params *params)
{
    char path[PS_FIELD_MAX];

    if (!ps_check_choice(check, field, &ps_kind_schedule, choice, "constant", params)) {
        return NULL;
    }
    if (steps > 0 && params->v[PS_WARMUP] >= (double)steps) {
        snprintf(path, sizeof path, "%s.params.warmup", field);
        ps_check_bad(check, path, "is %.0f; the job has %" PRIu64 " steps: fewer are allowed",
                     params->v[PS_WARMUP], steps);
    }
    return ps_plan_schedule(plan, choice->name);
}

/* Checks the schedule of the update's number `compensation`. If the update has no such number, only
 * the schedule `constant` is allowed. */
static void check_compensation(ps_check *check, ps_plan *plan)
{
    static const char field[] = "spec.optimizer.compensation_schedule";
    Psgd__V1__Choice *choice = plan->spec->optimizer->compensation_schedule;
    const ps_schedule *schedule = check_schedule(check, plan, field, choice, plan->total_steps,
                                                 &plan->compensation_schedule_params);

    if (plan->update != NULL && ps_param_find(plan->update->params, "compensation") >= 0) {
        plan->compensation_schedule = schedule;
    } else if (plan->update != NULL && strcmp(choice->name, "constant") != 0) {
        ps_check_bad(check, field,
                     "is \"%s\"; update %s has no number compensation: constant is "
                     "allowed",
                     PS_SHORT(choice->name, 64), plan->update->name);
    }
}

void ps_check_descent(ps_check *check, ps_plan *plan)
{
    Psgd__V1__OptimizerSpec *spec = plan->spec->optimizer;
    const ps_schedule *schedule;
    ps_params params = {{0}};
    uint64_t steps = plan->local_optim != NULL ? plan->total_steps : plan->total_clocks;

    schedule =
        check_schedule(check, plan, "spec.optimizer.schedule", spec->schedule, steps, &params);
    check_compensation(check, plan);
    if (ps_check_choice(check, "spec.optimizer.clip", &ps_kind_clip, spec->clip, "none",
                        &plan->clip_params)) {
        plan->clip = ps_clip_find(spec->clip->name);
    }
    check_penalty(check, "spec.optimizer.l1", spec->l1);
    check_penalty(check, "spec.optimizer.l2", spec->l2);
    fill(plan, schedule, &params);
}
