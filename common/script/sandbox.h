/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - a process that runs a file of code (common/sandbox) and shares memory with this one.
 *
 * The program is the one that the environment variable PSGD_SANDBOX names, else psgd-sandbox in the
 * folder of the running program. The sandbox's process ends when this process ends. One thread at a
 * time may use a sandbox. */
#ifndef PS_COMMON_SCRIPT_SANDBOX_H
#define PS_COMMON_SCRIPT_SANDBOX_H

#include "common/base/status.h"
#include "common/script/sandbox_protocol.h"

typedef struct ps_sandbox ps_sandbox;

/* What a call may take. */
typedef struct ps_sandbox_budget {
    uint64_t instructions; /* most instructions of Lua */
    uint64_t memory;       /* most bytes that are in use at a time */
    uint64_t time_us;      /* in the background of processor time */
    /* the process runs at the lowest priority, for code that no job needs yet; each call may last
     * PS_SANDBOX_PATIENCE times its budget, because other processes have the processor first and
     * it pauses */
    bool is_background;
} ps_sandbox_budget;

/* Returns the budget of the calls of a job's plugins: 20 million instructions, 64 MiB, 5 s. */
ps_sandbox_budget ps_sandbox_budget_default(void);
/* Returns the budget of code that no job needs yet: the same, but in the background, with 0.5 s. */
ps_sandbox_budget ps_sandbox_budget_trial(void);

/* Starts a sandbox and waits until it is confined, at most 10 s. Returns UNAVAILABLE if it does not
 * start or cannot be confined on this machine. */
PS_MUST_USE ps_status ps_sandbox_start(const ps_sandbox_budget *budget, ps_sandbox **out);

/* Ends the process and frees the sandbox. NULL is allowed. */
void ps_sandbox_end(ps_sandbox *sandbox);

/* Returns the shared memory, valid until ps_sandbox_end. The caller may use it except during
 * ps_sandbox_call. What the sandbox wrote may be anything, and may change while the caller reads
 * it. */
ps_sandbox_memory *ps_sandbox_shared(ps_sandbox *sandbox);

/* Has the sandbox make the call that the shared memory describes, and then `repeats` further calls,
 * whose arguments follow those of the first one. Blocks until all are answered. `functions`: number
 * of functions of the code that one call runs (2 for a round trip). Returns FAILED_PRECONDITION
 * with the text of the error if the code failed; RESOURCE_EXHAUSTED if all calls together took
 * longer than the time budgets of all their functions, or if the process ended. CANCELLED after
 * ps_sandbox_stop. After RESOURCE_EXHAUSTED or CANCELLED the sandbox can only be ended. */
PS_MUST_USE ps_status ps_sandbox_call(ps_sandbox *sandbox, uint32_t repeats, uint32_t functions);

/* Makes the running call end soon, and all later calls at once, with CANCELLED. The sandbox can
 * then only be ended. Any thread. */
void ps_sandbox_stop(ps_sandbox *sandbox);

/* Returns whether the process has ended, or was ended because a call took too long. */
bool ps_sandbox_is_over(const ps_sandbox *sandbox);

/* Returns whether the caller should replace the sandbox by a new one before a call of as many
 * functions as `functions` says, because that call might exceed the processor time that the kernel
 * grants the sandbox's process in its life (PS_SANDBOX_CPU_S). That time is bounded so that a
 * process that an attacker has taken over does not outlive its service for long. */
bool ps_sandbox_is_old(const ps_sandbox *sandbox, uint32_t functions);

/* Returns the time of all calls that were answered, in the background their processor time. */
int64_t ps_sandbox_used_us(const ps_sandbox *sandbox);

/* Returns whether its budget says that it runs at the lowest priority. */
bool ps_sandbox_is_background(const ps_sandbox *sandbox);

/* Returns the id of the sandbox's process, for tests. */
int ps_sandbox_pid(const ps_sandbox *sandbox);

#endif
