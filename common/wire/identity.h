/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - which worker speaks on a stream of the data plane, and whether it may.
 *
 * The first message of a stream says who it is; every message says its attempt.
 * What is refused, and why: docs/wire.md. Pure, but for ps_identity_allows and
 * ps_identity_refuse, which end calls of gRPC on the loop's thread.
 */
#ifndef PS_COMMON_WIRE_IDENTITY_H
#define PS_COMMON_WIRE_IDENTITY_H

#include "common/rpc/server.h"

#include "psgd/v1/parameter.pb-c.h"

/* The attempt that streams are of. */
typedef struct ps_wire_attempt {
    const char *job_id; /* kept */
    uint32_t attempt;
    uint32_t worker_count;
    uint64_t layout_hash; /* of the model */
} ps_wire_attempt;

/* Why a stream is to end; without a reason it may go on. */
typedef struct ps_refusal {
    const char *reason; /* for machines; "": the name of the code; NULL: nothing is wrong */
    ps_status why;
} ps_refusal;

/* Fills in what worker `rank` says of itself; borrows the attempt's id. */
void ps_identity_fill(Psgd__V1__WorkerIdentity *who, const ps_wire_attempt *of, uint32_t rank,
                      uint64_t incarnation);

/* Returns whether a message of `attempt` is of the attempt that is held; `held` is NULL when none
 * is. */
ps_refusal ps_identity_check_attempt(const ps_wire_attempt *held, uint32_t attempt);

/* Returns the same for the first message of a stream, and whether its speaker is a worker of the
 * attempt; its rank is one of the job's then. `who` is NULL if it does not say. */
ps_refusal ps_identity_check(const ps_wire_attempt *held, const Psgd__V1__WorkerIdentity *who,
                             uint32_t attempt);

/* Returns whether no younger process of that worker has spoken before; *newest is the youngest
 * incarnation, which this one becomes. */
ps_refusal ps_identity_check_newest(const Psgd__V1__WorkerIdentity *who, uint64_t *newest);

/* Ends a call with a reason beside the status. */
void ps_identity_refuse(ps_call *call, const char *reason, ps_status why);

/* Ends the call if it is refused; false then. */
bool ps_identity_allows(ps_call *call, const ps_refusal *refusal);

/* Ends the call in `slot`, if there is one, as a newer stream has come; empties the slot. */
void ps_identity_replace(ps_call **slot);

#define PS_IDENTITY_REPLACED "the worker has opened a newer stream"

#endif
