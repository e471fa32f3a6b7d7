/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - checks which worker has sent a message: on a stream of gradients, weights or
 * packets, or with records.
 *
 * The first message of a stream has the identity of its worker. Every message has the number of its
 * attempt. docs/wire.md lists what is refused, and why. ps_identity_refuse, ps_identity_allows and
 * ps_identity_replace end calls, on the loop's thread. The other functions are pure. */
#ifndef PS_COMMON_WIRE_IDENTITY_H
#define PS_COMMON_WIRE_IDENTITY_H

#include "common/placement/placement.h"
#include "common/rpc/server.h"

#include "psgd/v1/parameter.pb-c.h"

/* The attempt to which streams belong. */
typedef struct ps_wire_attempt {
    const char *job_id; /* kept */
    uint32_t attempt;
    uint32_t worker_count;
    uint64_t layout_hash; /* hash of the model's layout */
} ps_wire_attempt;

/* The result of a check: why the stream must end, if it must. */
typedef struct ps_refusal {
    /* for machines; "": use the name of the status code; NULL: the stream may go on */
    const char *reason;
    ps_status why;
} ps_refusal;

/* Fills in the identity that worker `rank` sends. Borrows the strings of the attempt. */
void ps_identity_fill(Psgd__V1__WorkerIdentity *who, const ps_wire_attempt *of, uint32_t rank,
                      uint64_t incarnation);

/* Checks that a message of attempt number `attempt` belongs to `held`, the attempt that this
 * process serves; NULL: it serves none, which is refused. */
ps_refusal ps_identity_check_attempt(const ps_wire_attempt *held, uint32_t attempt);

/* Checks the first message of a stream: its attempt, as ps_identity_check_attempt does, and that
 * `who` names the job and the layout of the attempt and one of its ranks. `who` NULL: the message
 * has no identity, which is refused. */
ps_refusal ps_identity_check(const ps_wire_attempt *held, const Psgd__V1__WorkerIdentity *who,
                             uint32_t attempt);

/* Checks that no newer process of the same worker has opened a stream. *newest is the highest
 * incarnation seen of the worker; it becomes that of `who` if the check passes. */
ps_refusal ps_identity_check_newest(const Psgd__V1__WorkerIdentity *who, uint64_t *newest);

/* Checks that the client is the node to which the coordinator has given the rank. `node_id` is the
 * node named by the client's certificate; NULL, without TLS and within a process: nothing is
 * checked. The rank must have been checked. */
ps_refusal ps_identity_check_node(const ps_placement *placement, uint32_t rank,
                                  const char *node_id);

/* Ends a call with the status `why` and a reason for machines. */
void ps_identity_refuse(ps_call *call, const char *reason, ps_status why);

/* Ends the call if the check refused it. Returns whether the call goes on. */
bool ps_identity_allows(ps_call *call, const ps_refusal *refusal);

/* Ends the call in *slot, if there is one, because the worker has opened a newer stream. *slot
 * becomes NULL. */
void ps_identity_replace(ps_call **slot);

#define PS_IDENTITY_REPLACED "the worker has opened a newer stream"

#endif
