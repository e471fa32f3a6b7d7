/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - a node's side of the commit, as a state machine.
 *
 * Pure: no I/O, no clock. The caller says what happened and when; the answer
 * says what to do. A node holds one attempt of one job or none:
 *
 *   IDLE -> RESERVED -> PREPARING -> PREPARED -> READY -> RUNNING -> FINISHED
 *
 * From every state but IDLE an abort, an older fence or a deadline leads back
 * to IDLE, a failure of the node's own work from READY or RUNNING to FAILED;
 * FINISHED and FAILED keep their files until the coordinator has collected
 * them and aborts.
 */
#ifndef PS_COMMON_NODE_AGENT_H
#define PS_COMMON_NODE_AGENT_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_JOB_ID_MAX = 96 };

/* Values are those of psgd.v1.NodePhase. */
typedef enum ps_phase {
    PS_PHASE_IDLE = 1,
    PS_PHASE_RESERVED = 2,
    PS_PHASE_PREPARING = 3,
    PS_PHASE_PREPARED = 4,
    PS_PHASE_READY = 5,
    PS_PHASE_RUNNING = 6,
    PS_PHASE_FINISHED = 7,
    PS_PHASE_FAILED = 8
} ps_phase;

typedef struct ps_agent {
    ps_phase phase;
    char job_id[PS_JOB_ID_MAX]; /* "" when idle */
    uint32_t attempt;
    int64_t deadline_us;          /* when tick rolls back; INT64_MAX: no deadline */
    ps_status error;              /* when FAILED */
    char last_job[PS_JOB_ID_MAX]; /* newest attempt ever held: older ones are refused */
    uint32_t last_attempt;
    bool last_aborted; /* and that one itself, when an abort for it has come */
} ps_agent;

/* What the caller has to do after a call. */
typedef enum ps_agent_action {
    PS_AGENT_NOTHING,
    PS_AGENT_RELEASE,  /* drop all that belongs to the attempt: streams, run, files; now IDLE */
    PS_AGENT_GO_READY, /* call Ready */
    PS_AGENT_RUN       /* start training or serving */
} ps_agent_action;

void ps_agent_init(ps_agent *agent);

/* OK: reserved (again, for the same attempt). UNAVAILABLE: held by another, or
 * by an older attempt of the same job; see agent->job_id. ABORTED: an attempt
 * that is over: older than the newest one of the job, or aborted. */
PS_MUST_USE ps_status ps_agent_can_commit(ps_agent *agent, const char *job_id, uint32_t attempt,
                                          int64_t now_us, int64_t reserve_us);
/* PreCommit begins: RESERVED -> PREPARING. Here and below, of an attempt that
 * is not held: ABORTED if a newer one of the job has been here, else
 * FAILED_PRECONDITION; also FAILED_PRECONDITION in any other phase. */
PS_MUST_USE ps_status ps_agent_prepare(ps_agent *agent, const char *job_id, uint32_t attempt,
                                       int64_t now_us, int64_t deadline_us);
/* The seal held: PREPARING -> PREPARED, DoCommit expected within wait_us. */
PS_MUST_USE ps_status ps_agent_sealed(ps_agent *agent, int64_t now_us, int64_t wait_us);
/* DoCommit: PREPARED -> READY; repeated later: OK and nothing. */
PS_MUST_USE ps_status ps_agent_do_commit(ps_agent *agent, const char *job_id, uint32_t attempt,
                                         int64_t now_us, int64_t ready_us, ps_agent_action *action);
/* The barrier opened or failed; READY only, else nothing. */
ps_agent_action ps_agent_barrier(ps_agent *agent, bool opened);
/* The node's own work is over: RUNNING -> FINISHED or FAILED, READY -> FAILED;
 * else nothing. */
void ps_agent_done(ps_agent *agent, const ps_status *result);
/* Abort of (job, attempt): RELEASE if it is the one held or a newer one of the
 * same job, else NOTHING. */
ps_agent_action ps_agent_abort(ps_agent *agent, const char *job_id, uint32_t attempt);
/* The coordinator was heard of: what FINISHED and FAILED keep is kept until
 * then; else nothing. */
void ps_agent_keep_until(ps_agent *agent, int64_t deadline_us);
/* The stream of PreCommit broke, or a package was bad; PREPARING only. */
ps_agent_action ps_agent_give_up(ps_agent *agent);
/* Time has passed: RELEASE when the deadline is over. */
ps_agent_action ps_agent_tick(ps_agent *agent, int64_t now_us);

const char *ps_phase_name(ps_phase phase); /* "IDLE" */

/* OK if (job, attempt) is the one held; else as in ps_agent_prepare. */
PS_MUST_USE ps_status ps_agent_check(const ps_agent *agent, const char *job_id, uint32_t attempt);

#endif
