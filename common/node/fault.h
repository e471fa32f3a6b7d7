/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - points at which a process under test fails on purpose.
 *
 *     exit-at:PHASE     ends itself with SIGKILL when it enters the phase
 *     stop-at:PHASE     freezes itself with SIGSTOP when it enters the phase
 *     drop-ack:N        (parameter server) ends a push stream instead of sending
 *                       each Nth acknowledgement, but not twice the same one
 */
#ifndef PS_COMMON_NODE_FAULT_H
#define PS_COMMON_NODE_FAULT_H

#include "common/node/agent.h"

typedef struct ps_faults {
    ps_phase exit_at, stop_at; /* 0: nowhere */
    uint64_t drop_ack;         /* 0: none */
} ps_faults;

/* Adds the fault that `text` names, such as "exit-at:PREPARED". Returns INVALID_ARGUMENT, which
 * says what is allowed. */
PS_MUST_USE ps_status ps_faults_add(ps_faults *faults, const char *text);

/* Carries out the faults of a phase that the node has entered. May not return. */
void ps_faults_at(const ps_faults *faults, ps_phase phase);

#endif
