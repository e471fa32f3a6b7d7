/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - a process that runs a file of code (common/sandbox) and shares memory with this one.
 *
 * The program is that which the environment variable PSGD_SANDBOX names, or psgd-sandbox in the
 * folder of the running program. The process ends with this one. One thread at a time may use a
 * sandbox.
 */
#ifndef PS_COMMON_SCRIPT_SANDBOX_H
#define PS_COMMON_SCRIPT_SANDBOX_H

#include "common/base/status.h"
#include "common/script/sandbox_protocol.h"

typedef struct ps_sandbox ps_sandbox;

/* What a call may take. */
typedef struct ps_sandbox_budget {
    uint64_t instructions; /* of Lua */
    uint64_t memory;       /* bytes that are in use at a time */
    uint64_t time_us;
    bool is_background; /* runs at the lowest priority, for code that no job needs yet */
} ps_sandbox_budget;

/* Those of jobs: 20 million instructions, 64 MiB, 5 s. */
ps_sandbox_budget ps_sandbox_budget_default(void);

/* Starts a sandbox and waits until it is confined, at most 10 s. Returns UNAVAILABLE if it does not
 * start or cannot be confined on this machine. */
PS_MUST_USE ps_status ps_sandbox_start(const ps_sandbox_budget *budget, ps_sandbox **out);

/* Ends the process and frees the sandbox. NULL is allowed. */
void ps_sandbox_end(ps_sandbox *sandbox);

/* Lends the shared memory. It is the caller's until the call and after it. What the sandbox wrote
 * may be anything; it may also change while the caller reads it. */
ps_sandbox_memory *ps_sandbox_shared(ps_sandbox *sandbox);

/* Has the sandbox do what the shared memory says, and `repeats` times more with the arguments that
 * follow, and waits for the answer. Each time it calls so many `functions`. Returns
 * FAILED_PRECONDITION with its text if the code failed; RESOURCE_EXHAUSTED if all took longer than
 * the budgets of so many functions, or the process ended. After the latter the sandbox can only be
 * ended. */
PS_MUST_USE ps_status ps_sandbox_call(ps_sandbox *sandbox, uint32_t repeats, uint32_t functions);

/* Lets the running call end soon, and all later ones at once, with CANCELLED. Any thread. After it
 * the sandbox can only be ended. */
void ps_sandbox_stop(ps_sandbox *sandbox);

/* Returns whether the process has ended, or was ended because a call took too long. */
bool ps_sandbox_is_over(const ps_sandbox *sandbox);

/* Returns whether another process should take its place before the next call, because the kernel
 * could end it for the processor time of its life. That is bounded so that one that was taken over
 * does not outlive its service for long. */
bool ps_sandbox_is_old(const ps_sandbox *sandbox);

/* Returns the process, for tests. */
int ps_sandbox_pid(const ps_sandbox *sandbox);

#endif
