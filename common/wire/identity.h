/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - which worker speaks on a stream of the data plane, and whether it may.
 *
 * The first message of a stream says who it is; every message says its attempt.
 * What is refused, and why: docs/wire.md. Loop's thread.
 */
#ifndef PS_COMMON_WIRE_IDENTITY_H
#define PS_COMMON_WIRE_IDENTITY_H

#include "common/node/node.h"

#include "psgd/v1/parameter.pb-c.h"

/* This node's own, as the worker that it is in the session; borrows of it. */
void ps_identity_fill(Psgd__V1__WorkerIdentity *who, const ps_session *session,
                      uint64_t incarnation);

/* Ends a call with the reason, for machines, beside the status. */
void ps_identity_refuse(ps_call *call, const char *reason, ps_status why);

/* Is it a message of the attempt that is held? `session` is NULL when none is. False: the call
 * has failed. */
bool ps_identity_check_attempt(const ps_session *session, ps_call *call, uint32_t attempt);

/* The same for the first message, who speaks included; its rank is one of the session's then. */
bool ps_identity_check(const ps_session *session, ps_call *call,
                       const Psgd__V1__WorkerIdentity *who, uint32_t attempt);

/* Then: *newest is the youngest process seen of that worker, which this one now is. */
bool ps_identity_is_newest(ps_call *call, const Psgd__V1__WorkerIdentity *who, uint64_t *newest);

/* A newer stream has come, if there was one in `slot` before. */
void ps_identity_replace(ps_call **slot);

#endif
