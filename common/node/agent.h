/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - a node's side of the commit, as a state machine.
 *
 * Pure: no I/O, no clock. The caller tells it what has happened and when; the returned action says
 * what the caller has to do. A node holds one attempt of one job, or none:
 *
 * IDLE -> RESERVED -> PREPARING -> PREPARED -> READY -> RUNNING -> FINISHED
 *
 * An abort of this or of a newer attempt, or a deadline, leads from every phase back to IDLE;
 * RUNNING has no deadline. A failure of the node's own work leads from READY or RUNNING to FAILED.
 * In FINISHED and FAILED the node keeps the attempt's files until the coordinator has collected
 * them and aborts the attempt.
 *
 * Functions that return a status refuse an attempt that the node does not hold: ABORTED if it is
 * over here (aborted, or older than the fence), else FAILED_PRECONDITION. In any other phase than
 * the one for which they are meant, they return FAILED_PRECONDITION. */
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
    /* monotonic time at which ps_agent_tick releases the attempt; INT64_MAX: never */
    int64_t deadline_us;
    ps_status error;   /* the failure, in phase FAILED */
    bool has_diverged; /* FAILED because a number of the training is not finite */
    /* the fence is (last_job, last_attempt): older attempts of this job are refused */
    char last_job[PS_JOB_ID_MAX];
    uint32_t last_attempt;
    bool last_aborted; /* the attempt of the fence was aborted, so it is refused too */
} ps_agent;

/* What the caller must do after a call. */
typedef enum ps_agent_action {
    PS_AGENT_NOTHING,
    PS_AGENT_RELEASE,  /* drop all of the attempt: streams, run, files; the phase is IDLE already */
    PS_AGENT_GO_READY, /* call Ready */
    PS_AGENT_RUN       /* start training or serving */
} ps_agent_action;

void ps_agent_init(ps_agent *agent);

/* Handles CanCommit: IDLE -> RESERVED for at most reserve_us. OK again while the attempt is
 * RESERVED. Returns UNAVAILABLE if the node is held otherwise (agent->job_id), and ABORTED if the
 * attempt is over: aborted, or older than the fence. */
PS_MUST_USE ps_status ps_agent_can_commit(ps_agent *agent, const char *job_id, uint32_t attempt,
                                          int64_t now_us, int64_t reserve_us);
/* Handles the begin of PreCommit: RESERVED -> PREPARING for at most deadline_us, a duration. */
PS_MUST_USE ps_status ps_agent_prepare(ps_agent *agent, const char *job_id, uint32_t attempt,
                                       int64_t now_us, int64_t deadline_us);
/* Handles the end of PreCommit, after the seal was accepted: PREPARING -> PREPARED. DoCommit must
 * come within wait_us. */
PS_MUST_USE ps_status ps_agent_sealed(ps_agent *agent, int64_t now_us, int64_t wait_us);
/* Handles DoCommit: PREPARED -> READY for at most ready_us. In a later phase returns OK and changes
 * nothing. */
PS_MUST_USE ps_status ps_agent_do_commit(ps_agent *agent, const char *job_id, uint32_t attempt,
                                         int64_t now_us, int64_t ready_us, ps_agent_action *action);
/* Handles the end of the barrier: READY -> RUNNING if it has opened; if it failed, the attempt is
 * released. Does nothing in other phases. */
ps_agent_action ps_agent_barrier(ps_agent *agent, bool opened);
/* Handles the end of the node's own work: RUNNING -> FINISHED or FAILED, READY -> FAILED. Does
 * nothing in other phases. */
void ps_agent_done(ps_agent *agent, const ps_status *result);
/* Handles Abort. Returns PS_AGENT_RELEASE if it names the attempt that is held or a newer one of
 * the same job, else PS_AGENT_NOTHING. */
ps_agent_action ps_agent_abort(ps_agent *agent, const char *job_id, uint32_t attempt);
/* Sets the time until which the node keeps its files in FINISHED or FAILED. Call it when the
 * coordinator was heard from. Does nothing in other phases. */
void ps_agent_keep_until(ps_agent *agent, int64_t deadline_us);
/* Handles a broken stream of PreCommit or a package that was refused: the attempt is released. Does
 * nothing outside PREPARING. */
ps_agent_action ps_agent_give_up(ps_agent *agent);
/* Tells the agent the time. Returns PS_AGENT_RELEASE when the deadline has passed. */
ps_agent_action ps_agent_tick(ps_agent *agent, int64_t now_us);

/* Returns the name of a phase, as in "IDLE". */
const char *ps_phase_name(ps_phase phase);

/* Checks that this attempt is the one that the node holds. */
PS_MUST_USE ps_status ps_agent_check(const ps_agent *agent, const char *job_id, uint32_t attempt);

#endif
