/* SPDX-License-Identifier: Apache-2.0 */
/* check_recovery.c - see plan_impl.h: spec.recovery. */
#include "common/job/plan_impl.h"

enum { RESTARTS_DEFAULT = 1000 };
static const double wait_min = 1, wait_max = 1e9;

static void check_action(ps_check *check, const char *field, Psgd__V1__LossAction *action,
                         bool is_on)
{
    switch (*action) {
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_UNSPECIFIED:
        *action = is_on ? PSGD__V1__LOSS_ACTION__LOSS_ACTION_RESTART
                        : PSGD__V1__LOSS_ACTION__LOSS_ACTION_FAIL;
        return;
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_RESTART:
    case PSGD__V1__LOSS_ACTION__LOSS_ACTION_FAIL:
        return;
    default:
        ps_check_bad(check, field, "is %d; LOSS_ACTION_RESTART and LOSS_ACTION_FAIL are allowed",
                     (int)*action);
    }
}

void ps_check_recovery(ps_check *check, ps_plan *plan)
{
    Psgd__V1__RecoverySpec *spec = plan->spec->recovery;
    bool is_on = plan->policy != NULL && plan->policy->is_deterministic;

    ps_check_u32(check, "spec.recovery.max_restarts", &spec->max_restarts, RESTARTS_DEFAULT, 1,
                 PS_RESTARTS_MAX);
    check_action(check, "spec.recovery.on_worker_loss", &spec->on_worker_loss, is_on);
    check_action(check, "spec.recovery.on_server_loss", &spec->on_server_loss, is_on);
    if (spec->wait_seconds == 0) {
        spec->wait_seconds = PS_RECOVERY_WAIT_S;
    }
    if (!(spec->wait_seconds >= wait_min && spec->wait_seconds <= wait_max)) {
        ps_check_bad(check, "spec.recovery.wait_seconds", "is %.15g; %.15g to %.15g are allowed",
                     spec->wait_seconds, wait_min, wait_max);
    }
}
