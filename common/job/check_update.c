/* SPDX-License-Identifier: Apache-2.0 */
/* check_update.c - the update of a job, and what local steps exclude. */
#include "common/job/plan_impl.h"

#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/numbers.h"
#include "common/job/spec.h"

#include <inttypes.h>
#include <string.h>

/* Fills in the update's own rule if the choice names none, and that rule's numbers that the choice
 * leaves out. Leaves a choice of another rule as it is. */
static void underlay_rule(Psgd__V1__Choice *choice, const ps_local_rule *rule)
{
    if (choice->name[0] != '\0' && strcmp(choice->name, rule->name) != 0) {
        return;
    }
    ps_spec_set(&choice->name, rule->name);
    for (size_t k = 0; k < 2 && rule->number[k].key != NULL; k++) {
        if (!ps_numbers_have(&choice->base, rule->number[k].key)) {
            ps_numbers_set(&choice->base, rule->number[k].key, rule->number[k].value);
        }
    }
}

static void check_only(ps_check *check, const char *field, const char *name, const char *only,
                       const char *update)
{
    if (only != NULL && strcmp(name, only) != 0) {
        ps_check_bad(check, field, "is \"%s\"; update %s works with %s alone", PS_SHORT(name, 64),
                     update, only);
    }
}

void ps_check_update(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;
    Psgd__V1__OptimizerSpec *optimizer = spec->optimizer;
    const ps_local *local;

    if (!ps_check_choice(check, "spec.update", &ps_kind_update, spec->update, "gradient",
                         &plan->update_params)) {
        return;
    }
    plan->update = ps_update_find(spec->update->name);
    local = plan->update->local;
    if (local == NULL || local->sends_gradients) {
        if (optimizer->local != NULL &&
            (optimizer->local->name[0] != '\0' || optimizer->local->n_params > 0)) {
            ps_check_bad(check, "spec.optimizer.local",
                         "is given; workers of update %s take no steps of their own",
                         plan->update->name);
        }
        return;
    }
    if (optimizer->local == NULL) {
        optimizer->local = ps_xmalloc(sizeof *optimizer->local);
        psgd__v1__choice__init(optimizer->local);
    }
    underlay_rule(optimizer->local, &local->inner);
    underlay_rule(optimizer->rule, &local->outer);
    if (ps_check_choice(check, "spec.optimizer.local", &ps_kind_optimizer, optimizer->local,
                        local->inner.name, &plan->local_params)) {
        plan->local_optim = ps_optim_find(optimizer->local->name);
    }
    check_only(check, "spec.optimizer.local.name", optimizer->local->name, local->only_inner,
               plan->update->name);
    check_only(check, "spec.optimizer.rule.name", optimizer->rule->name, local->only_outer,
               plan->update->name);
}

/* Checks that an update that corrects delays has a policy that steps on each contribution, and that
 * the servers step. */
static void check_delay(ps_check *check, const ps_plan *plan)
{
    if (plan->policy != NULL && plan->policy->closes != NULL) {
        ps_check_bad(check, "spec.consistency.name",
                     "is \"%s\", which sums before it steps; update %s corrects each contribution "
                     "by itself: policies that step on each, as asp and ssp, are allowed",
                     plan->policy->name, plan->update->name);
    }
    if (!plan->optim_on_server) {
        ps_check_bad(check, "spec.optimizer.side",
                     "is WORKER; update %s corrects gradients, and increments are none: SERVER is "
                     "allowed",
                     plan->update->name);
    }
}

void ps_check_local(ps_check *check, ps_plan *plan)
{
    const ps_local *local = plan->update != NULL ? plan->update->local : NULL;
    int at_most;

    plan->total_clocks = plan->total_steps;
    if (plan->update != NULL && plan->update->delay != NULL) {
        check_delay(check, plan);
    }
    if (local == NULL) {
        return;
    }
    plan->total_clocks = ps_local_clocks(local, &plan->update_params, plan->total_steps);
    at_most = ps_param_find(plan->update->params, "at_most");
    plan->rounds_vary = at_most >= 0 && plan->update_params.v[at_most] == 1;
    if (plan->rounds_vary) {
        plan->total_clocks = plan->total_steps; /* an upper bound: a clock has at least a step */
    }
    if (plan->rounds_vary && plan->policy != NULL && !plan->policy->is_deterministic) {
        ps_check_bad(check, "spec.update.params.at_most",
                     "is 1, with consistency %s; rounds whose steps vary end together: bsp is "
                     "allowed",
                     plan->policy->name);
    }
    if (plan->assignment != NULL && plan->assignment->redundancy > 1) {
        ps_check_bad(check, "spec.assignment.params.redundancy",
                     "is %" PRIu32 "; replicas of update %s differ, so copies of a block are "
                     "no copies: 1 is allowed",
                     plan->assignment->redundancy, plan->update->name);
    }
    if (!plan->optim_on_server && !local->sends_gradients) {
        ps_check_bad(check, "spec.optimizer.side",
                     "is WORKER; workers of update %s step by optimizer.local, the rule is the "
                     "servers': SERVER is allowed",
                     plan->update->name);
    }
    if (plan->policy != NULL && plan->policy->leaves_behind) {
        ps_check_bad(check, "spec.consistency.name",
                     "is \"%s\"; what a worker of update %s did in a round that closes without it "
                     "would be lost: policies that leave nobody behind, as bsp, ssp and asp, are "
                     "allowed",
                     plan->policy->name, plan->update->name);
    } else if (local->needs_bsp && plan->policy != NULL && !plan->policy->is_deterministic) {
        ps_check_bad(check, "spec.consistency.name",
                     "is \"%s\"; update %s counts on the contributions of all workers to each "
                     "round: bsp is allowed",
                     plan->policy->name, plan->update->name);
    }
    for (uint32_t w = 0; plan->assignment != NULL && w < plan->assignment->workers; w++) {
        if (plan->assignment->held_count[w] == 0) {
            ps_check_bad(check, "spec.assignment", "gives worker %" PRIu32 " no block", w);
        }
    }
}
