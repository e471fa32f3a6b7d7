/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h. */
#include "common/wire/identity.h"

#include <string.h>

void ps_identity_fill(Psgd__V1__WorkerIdentity *who, const ps_wire_attempt *of, uint32_t rank,
                      uint64_t incarnation)
{
    psgd__v1__worker_identity__init(who);
    who->job_id = (char *)of->job_id;
    who->rank = rank;
    who->incarnation = incarnation;
    who->layout_hash = of->layout_hash;
}

static ps_refusal refusal(const char *reason, ps_status why)
{
    return (ps_refusal){.reason = reason, .why = why};
}

ps_refusal ps_identity_check_attempt(const ps_wire_attempt *held, uint32_t attempt)
{
    if (held == NULL) {
        return refusal("NO_JOB", ps_fail(PS_FAILED_PRECONDITION, "this node holds no job"));
    }
    if (attempt != held->attempt) {
        return refusal("WRONG_ATTEMPT",
                       ps_fail(PS_ABORTED, "attempt %u of %s; this node holds attempt %u", attempt,
                               held->job_id, held->attempt));
    }
    return (ps_refusal){0};
}

ps_refusal ps_identity_check(const ps_wire_attempt *held, const Psgd__V1__WorkerIdentity *who,
                             uint32_t attempt)
{
    ps_refusal r;

    if (who == NULL) {
        return refusal(
            "NO_IDENTITY",
            ps_fail(PS_INVALID_ARGUMENT, "worker: missing in the first message of the stream"));
    }
    if (held != NULL && strcmp(who->job_id, held->job_id) != 0) {
        return refusal("WRONG_JOB", ps_fail(PS_FAILED_PRECONDITION,
                                            "worker.job_id: this node holds %s", held->job_id));
    }
    r = ps_identity_check_attempt(held, attempt);
    if (r.reason != NULL) {
        return r;
    }
    if (who->layout_hash != held->layout_hash) {
        return refusal("WRONG_MODEL",
                       ps_fail(PS_FAILED_PRECONDITION,
                               "worker.layout_hash: %016llx; this node holds another model",
                               (unsigned long long)who->layout_hash));
    }
    if (who->rank >= held->worker_count) {
        return refusal("WRONG_RANK", ps_fail(PS_INVALID_ARGUMENT, "worker.rank: %u of %u workers",
                                             who->rank, held->worker_count));
    }
    return r;
}

ps_refusal ps_identity_check_newest(const Psgd__V1__WorkerIdentity *who, uint64_t *newest)
{
    if (who->incarnation < *newest) {
        return refusal(
            "OLD_INCARNATION",
            ps_fail(PS_ABORTED, "worker.incarnation: a younger process is worker %u", who->rank));
    }
    *newest = who->incarnation;
    return (ps_refusal){0};
}

ps_refusal ps_identity_check_node(const ps_placement *placement, uint32_t rank, const char *node_id)
{
    const char *placed;

    if (node_id == NULL) {
        return (ps_refusal){0};
    }
    placed = ps_placement_process(placement, rank)->node_id;
    if (strcmp(placed, node_id) != 0) {
        return refusal("WRONG_NODE",
                       ps_fail(PS_PERMISSION_DENIED,
                               "worker.rank: %u is on node/%s; the certificate is of node/%s", rank,
                               placed, node_id));
    }
    return (ps_refusal){0};
}

void ps_identity_refuse(ps_call *call, const char *reason, ps_status why)
{
    ps_error error;

    ps_error_init(&error, why, reason);
    ps_call_fail_error(call, &error);
}

bool ps_identity_allows(ps_call *call, const ps_refusal *r)
{
    if (r->reason != NULL) {
        ps_identity_refuse(call, r->reason, r->why);
    }
    return r->reason == NULL;
}

void ps_identity_replace(ps_call **slot)
{
    ps_call *old = *slot;

    *slot = NULL;
    if (old != NULL) {
        ps_identity_refuse(old, "REPLACED", ps_fail(PS_ABORTED, "%s", PS_IDENTITY_REPLACED));
    }
}
