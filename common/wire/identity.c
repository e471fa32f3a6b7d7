/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h. */
#include "common/wire/identity.h"

#include <string.h>

void ps_identity_fill(Psgd__V1__WorkerIdentity *who, const ps_session *session,
                      uint64_t incarnation)
{
    psgd__v1__worker_identity__init(who);
    who->job_id = (char *)session->job_id;
    who->rank = session->rank;
    who->incarnation = incarnation;
    who->layout_hash = session->plan->layout.hash;
}

void ps_identity_refuse(ps_call *call, const char *reason, ps_status why)
{
    ps_error error;

    ps_error_init(&error, why, reason);
    ps_call_fail_error(call, &error);
}

bool ps_identity_check_attempt(const ps_session *session, ps_call *call, uint32_t attempt)
{
    if (session == NULL) {
        ps_identity_refuse(call, "NO_JOB",
                           ps_fail(PS_FAILED_PRECONDITION, "this node holds no job"));
        return false;
    }
    if (attempt != session->attempt) {
        ps_identity_refuse(call, "WRONG_ATTEMPT",
                           ps_fail(PS_ABORTED, "attempt %u of %s; this node holds attempt %u",
                                   attempt, session->job_id, session->attempt));
        return false;
    }
    return true;
}

/* Who it is beside its attempt. */
static ps_status check(const ps_session *session, const Psgd__V1__WorkerIdentity *who,
                       const char **reason)
{
    if (who->layout_hash != session->plan->layout.hash) {
        *reason = "WRONG_MODEL";
        return ps_fail(PS_FAILED_PRECONDITION,
                       "worker.layout_hash: %016llx; this node holds a model of %016llx",
                       (unsigned long long)who->layout_hash,
                       (unsigned long long)session->plan->layout.hash);
    }
    if (who->rank >= session->placement.rank_count) {
        *reason = "WRONG_RANK";
        return ps_fail(PS_INVALID_ARGUMENT, "worker.rank: %u of %u workers", who->rank,
                       session->placement.rank_count);
    }
    return ps_ok();
}

bool ps_identity_check(const ps_session *session, ps_call *call,
                       const Psgd__V1__WorkerIdentity *who, uint32_t attempt)
{
    const char *reason = NULL;
    ps_status st;

    if (who == NULL) {
        ps_identity_refuse(
            call, "NO_IDENTITY",
            ps_fail(PS_INVALID_ARGUMENT, "worker: missing in the first message of the stream"));
        return false;
    }
    if (session != NULL && strcmp(who->job_id, session->job_id) != 0) {
        ps_identity_refuse(
            call, "WRONG_JOB",
            ps_fail(PS_FAILED_PRECONDITION, "worker.job_id: this node holds %s", session->job_id));
        return false;
    }
    if (!ps_identity_check_attempt(session, call, attempt)) {
        return false;
    }
    st = check(session, who, &reason);
    if (!ps_is_ok(&st)) {
        ps_identity_refuse(call, reason, st);
        return false;
    }
    return true;
}

bool ps_identity_is_newest(ps_call *call, const Psgd__V1__WorkerIdentity *who, uint64_t *newest)
{
    if (who->incarnation < *newest) {
        ps_identity_refuse(
            call, "OLD_INCARNATION",
            ps_fail(PS_ABORTED, "worker.incarnation: a younger process is worker %u", who->rank));
        return false;
    }
    *newest = who->incarnation;
    return true;
}

void ps_identity_replace(ps_call **slot)
{
    ps_call *old = *slot;

    *slot = NULL;
    if (old != NULL) {
        ps_identity_refuse(old, "REPLACED",
                           ps_fail(PS_ABORTED, "the worker has opened a newer stream"));
    }
}
