/* SPDX-License-Identifier: Apache-2.0 */
/* check_recovery.c - see plan_impl.h: spec.recovery. */
#include "common/job/plan_impl.h"

enum { RESTARTS_DEFAULT = 1000, ROLLBACKS_DEFAULT = 3, REPLAY_MIB_DEFAULT = 64 };
static const double wait_min = 1, wait_max = 1e9;

bool ps_loss_restarts(Psgd__V1__LossAction action)
{
    return action == PSGD__V1__LOSS_ACTION__LOSS_ACTION_RESTART ||
           action == PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT;
}

/* Checks *action, what the job does after a loss. If it is not given, sets REPEAT under
 * deterministic policies (bsp), else RESTART. */
static void check_action(ps_check *check, const ps_plan *plan, const char *field,
                         Psgd__V1__LossAction *action)
{
    switch (*action) {
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_UNSPECIFIED:
        *action = plan->policy != NULL && plan->policy->is_deterministic
                      ? PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT
                      : PSGD__V1__LOSS_ACTION__LOSS_ACTION_RESTART;
        return;
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_RESTART:
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT:
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_FAIL:
        return;
    default:
        ps_check_bad(check, field, "is %d; REPEAT, RESTART and FAIL are allowed", (int)*action);
    }
}

static void check_divergence(ps_check *check, const ps_plan *plan, Psgd__V1__RecoverySpec *spec)
{
    const char *lacks =
        check->count == 0 /* all plugins are known */ ? ps_plan_checkpoint_lacks(plan) : NULL;

    switch (spec->on_divergence) {
    case PSGD__V1__DIVERGENCE_ACTION__DIVERGENCE_ACTION_UNSPECIFIED:
        spec->on_divergence = PSGD__V1__DIVERGENCE_ACTION__DIVERGENCE_ACTION_FAIL;
        break;
    case PSGD__V1__DIVERGENCE_ACTION__DIVERGENCE_ACTION_FAIL:
        break;
    case PSGD__V1__DIVERGENCE_ACTION__DIVERGENCE_ACTION_ROLLBACK:
        if (lacks != NULL) {
            ps_check_bad(check, "spec.recovery.on_divergence",
                         "cannot be ROLLBACK, as the job cannot have checkpoints: %s", lacks);
        }
        break;
    default:
        ps_check_bad(check, "spec.recovery.on_divergence", "is %d; FAIL and ROLLBACK are allowed",
                     (int)spec->on_divergence);
    }
    ps_check_u32(check, "spec.recovery.max_rollbacks", &spec->max_rollbacks, ROLLBACKS_DEFAULT, 1,
                 PS_ROLLBACKS_MAX);
    if (spec->halvings > PS_HALVINGS_MAX) {
        ps_check_bad(check, "spec.recovery.halvings", "is %u; 0 to %u are allowed", spec->halvings,
                     (unsigned)PS_HALVINGS_MAX);
    }
}

/* Checks recovery.replicas, the number of servers that keep each shard. It may be more than the
 * job's servers: a job that has lost some goes on with those that are left. */
static void check_replicas(ps_check *check, const ps_plan *plan, Psgd__V1__RecoverySpec *spec)
{
    const char *lacks;

    ps_check_u32(check, "spec.recovery.replicas", &spec->replicas, 1, 1, PS_REPLICAS_MAX);
    /* check->count == 0: all plugins are known */
    lacks = spec->replicas > 1 && check->count == 0 ? ps_plan_copy_lacks(plan) : NULL;
    if (lacks != NULL) {
        ps_check_bad(check, "spec.recovery.replicas",
                     "is %u, and this job cannot have copies of shards: %s; 1 is allowed",
                     spec->replicas, lacks);
    }
}

/* Checks workers_min and workers_max, the bounds between which the number of worker processes may
 * change. */
static void check_elastic(ps_check *check, const ps_plan *plan)
{
    const Psgd__V1__JobSpec *spec = plan->spec;
    const char *field = spec->workers_min > 0 ? "spec.workers_min" : "spec.workers_max";
    const char *lacks;

    if (spec->workers_min == 0 && spec->workers_max == 0) {
        return;
    }
    if (spec->workers_min > spec->worker_processes) {
        ps_check_bad(check, field, "is %u; 1 to %u (worker_processes) are allowed",
                     spec->workers_min, spec->worker_processes);
    }
    if (spec->n_nodes > 0) {
        ps_check_bad(check, field, "is given, and the job names its nodes; give one of the two");
    }
    lacks = check->count == 0 /* all plugins are known */ ? ps_plan_move_lacks(plan) : NULL;
    if (lacks != NULL) {
        ps_check_bad(check, field,
                     "is given, and the workers of this job cannot stop at a checkpoint: %s",
                     lacks);
    }
}

void ps_check_recovery(ps_check *check, ps_plan *plan)
{
    Psgd__V1__RecoverySpec *spec = plan->spec->recovery;

    ps_check_u32(check, "spec.recovery.max_restarts", &spec->max_restarts, RESTARTS_DEFAULT, 1,
                 PS_RESTARTS_MAX);
    check_action(check, plan, "spec.recovery.on_worker_loss", &spec->on_worker_loss);
    check_action(check, plan, "spec.recovery.on_server_loss", &spec->on_server_loss);
    ps_check_u32(check, "spec.recovery.replay_mib", &spec->replay_mib, REPLAY_MIB_DEFAULT, 1,
                 PS_REPLAY_MIB_MAX);
    if (spec->wait_seconds == 0) {
        spec->wait_seconds = PS_RECOVERY_WAIT_S;
    }
    if (!(spec->wait_seconds >= wait_min && spec->wait_seconds <= wait_max)) {
        ps_check_bad(check, "spec.recovery.wait_seconds", "is %.15g; %.15g to %.15g are allowed",
                     spec->wait_seconds, wait_min, wait_max);
    }
    check_divergence(check, plan, spec);
    check_replicas(check, plan, spec);
    check_elastic(check, plan);
}
