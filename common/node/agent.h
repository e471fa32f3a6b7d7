/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - a node's side of the commit, as a state machine.
 *
 * Pure: no I/O, no clock. The caller tells it what happened and when; the returned action says what
 * to do. A node holds one attempt of one job, or none:
 *
 *   IDLE -> RESERVED -> PREPARING -> PREPARED -> READY -> RUNNING -> FINISHED
 *
 * An abort, of this or of a newer attempt, or a deadline leads from every phase back to IDLE. A failure of the
 * node's own work leads from READY or RUNNING to FAILED. In FINISHED and FAILED the node keeps the
 * attempt's files until the coordinator has collected them and aborts.
 *
 * Functions that return a status refuse an attempt that is not held: ABORTED if the node has seen a
 * newer attempt of the job, else FAILED_PRECONDITION. In any other phase than the one they are for,
 * they fail with FAILED_PRECONDITION.
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
    int64_t deadline_us;          /* when ps_agent_tick releases; INT64_MAX: never */
    ps_status error;              /* why, if FAILED */
    bool has_diverged;            /* FAILED because a number of the training is not finite */
    char last_job[PS_JOB_ID_MAX]; /* the fence: older attempts of this job are refused */
    uint32_t last_attempt;
    bool last_aborted; /* the fence itself was aborted and is refused too */
} ps_agent;

/* What the caller must do after a call. */
typedef enum ps_agent_action {
    PS_AGENT_NOTHING,
    PS_AGENT_RELEASE,  /* drop everything of the attempt: streams, run, files; now IDLE */
    PS_AGENT_GO_READY, /* call Ready */
    PS_AGENT_RUN       /* start training or serving */
} ps_agent_action;

void ps_agent_init(ps_agent *agent);

/* Reserves the node: IDLE -> RESERVED; OK again for the same attempt. Fails with UNAVAILABLE if
 * another job or an older attempt holds the node (agent->job_id), and with ABORTED if the attempt
 * is over: aborted, or older than the fence. */
PS_MUST_USE ps_status ps_agent_can_commit(ps_agent *agent, const char *job_id, uint32_t attempt,
                                          int64_t now_us, int64_t reserve_us);
/* Begins PreCommit: RESERVED -> PREPARING. */
PS_MUST_USE ps_status ps_agent_prepare(ps_agent *agent, const char *job_id, uint32_t attempt,
                                       int64_t now_us, int64_t deadline_us);
/* Ends PreCommit after a good seal: PREPARING -> PREPARED. DoCommit must come within wait_us. */
PS_MUST_USE ps_status ps_agent_sealed(ps_agent *agent, int64_t now_us, int64_t wait_us);
/* Handles DoCommit: PREPARED -> READY. In a later phase it returns OK and changes nothing. */
PS_MUST_USE ps_status ps_agent_do_commit(ps_agent *agent, const char *job_id, uint32_t attempt,
                                         int64_t now_us, int64_t ready_us, ps_agent_action *action);
/* Handles the end of the barrier: opened, or failed. Does nothing outside READY. */
ps_agent_action ps_agent_barrier(ps_agent *agent, bool opened);
/* Handles the end of the node's own work: RUNNING -> FINISHED or FAILED, READY -> FAILED. Does
 * nothing in other phases. */
void ps_agent_done(ps_agent *agent, const ps_status *result);
/* Handles Abort. Returns RELEASE if it names the attempt held or a newer one of the same job, else
 * NOTHING. */
ps_agent_action ps_agent_abort(ps_agent *agent, const char *job_id, uint32_t attempt);
/* Sets the time until which the node keeps its files in FINISHED or FAILED. Call it when the
 * coordinator was heard from. Does nothing in other phases. */
void ps_agent_keep_until(ps_agent *agent, int64_t deadline_us);
/* Handles a broken stream of PreCommit or a bad package. Does nothing outside PREPARING. */
ps_agent_action ps_agent_give_up(ps_agent *agent);
/* Tells it the time. Returns RELEASE when the deadline has passed. */
ps_agent_action ps_agent_tick(ps_agent *agent, int64_t now_us);

/* Returns the name of a phase, as in "IDLE". */
const char *ps_phase_name(ps_phase phase);

/* Checks that the attempt is the one held. */
PS_MUST_USE ps_status ps_agent_check(const ps_agent *agent, const char *job_id, uint32_t attempt);

#endif
