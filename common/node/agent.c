/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - the node's side of the commit, without I/O and without a clock.
 *
 * The fence is the attempt that the node was reserved for last, or was told to abort after that
 * while no other job held it. A delayed message of an older attempt of the fence's job can neither
 * start nor stop anything.
 */
#include "common/node/agent.h"

#include <assert.h>
#include <string.h>

static const char *const phase_names[] = {
    [PS_PHASE_IDLE] = "IDLE",           [PS_PHASE_RESERVED] = "RESERVED",
    [PS_PHASE_PREPARING] = "PREPARING", [PS_PHASE_PREPARED] = "PREPARED",
    [PS_PHASE_READY] = "READY",         [PS_PHASE_RUNNING] = "RUNNING",
    [PS_PHASE_FINISHED] = "FINISHED",   [PS_PHASE_FAILED] = "FAILED",
};

const char *ps_phase_name(ps_phase phase)
{
    assert(phase >= PS_PHASE_IDLE && phase <= PS_PHASE_FAILED);
    return phase_names[phase];
}

void ps_agent_init(ps_agent *agent)
{
    memset(agent, 0, sizeof *agent);
    agent->phase = PS_PHASE_IDLE;
    agent->deadline_us = INT64_MAX;
}

static int64_t later(int64_t now_us, int64_t wait_us)
{
    return wait_us > INT64_MAX - now_us ? INT64_MAX : now_us + wait_us;
}

static void copy_id(char to[PS_JOB_ID_MAX], const char *job_id)
{
    size_t n = strlen(job_id);

    assert(n < PS_JOB_ID_MAX);
    memcpy(to, job_id, n + 1);
}

static void remember(ps_agent *agent, const char *job_id, uint32_t attempt, bool aborted)
{
    if (strcmp(agent->last_job, job_id) != 0 || agent->last_attempt != attempt) {
        copy_id(agent->last_job, job_id);
        agent->last_attempt = attempt;
        agent->last_aborted = false;
    }
    agent->last_aborted = agent->last_aborted || aborted;
}

static bool is_over(const ps_agent *agent, const char *job_id, uint32_t attempt)
{
    if (strcmp(agent->last_job, job_id) != 0) {
        return false;
    }
    return attempt < agent->last_attempt || (attempt == agent->last_attempt && agent->last_aborted);
}

static bool holds(const ps_agent *agent, const char *job_id, uint32_t attempt)
{
    return agent->phase != PS_PHASE_IDLE && agent->attempt == attempt &&
           strcmp(agent->job_id, job_id) == 0;
}

static ps_agent_action release(ps_agent *agent)
{
    agent->phase = PS_PHASE_IDLE;
    agent->job_id[0] = '\0';
    agent->attempt = 0;
    agent->deadline_us = INT64_MAX;
    agent->error = ps_ok();
    agent->has_diverged = false;
    return PS_AGENT_RELEASE;
}

ps_status ps_agent_check(const ps_agent *agent, const char *job_id, uint32_t attempt)
{
    if (holds(agent, job_id, attempt)) {
        return ps_ok();
    }
    if (is_over(agent, job_id, attempt)) {
        return ps_fail(PS_ABORTED, "attempt %u of job %s is over here", attempt, job_id);
    }
    if (agent->phase == PS_PHASE_IDLE) {
        return ps_fail(PS_FAILED_PRECONDITION, "not reserved for attempt %u of job %s", attempt,
                       job_id);
    }
    return ps_fail(PS_FAILED_PRECONDITION, "held by attempt %u of job %s", agent->attempt,
                   agent->job_id);
}

static ps_status wrong_phase(const ps_agent *agent, const char *what)
{
    return ps_fail(PS_FAILED_PRECONDITION, "%s does not fit phase %s", what,
                   ps_phase_name(agent->phase));
}

ps_status ps_agent_can_commit(ps_agent *agent, const char *job_id, uint32_t attempt, int64_t now_us,
                              int64_t reserve_us)
{
    if (is_over(agent, job_id, attempt)) {
        return ps_fail(PS_ABORTED, "attempt %u of job %s is over here", attempt, job_id);
    }
    if (agent->phase != PS_PHASE_IDLE &&
        !(agent->phase == PS_PHASE_RESERVED && holds(agent, job_id, attempt))) {
        return ps_fail(PS_UNAVAILABLE, "held by attempt %u of job %s", agent->attempt,
                       agent->job_id);
    }
    copy_id(agent->job_id, job_id);
    agent->attempt = attempt;
    agent->phase = PS_PHASE_RESERVED;
    agent->deadline_us = later(now_us, reserve_us);
    remember(agent, job_id, attempt, false);
    return ps_ok();
}

ps_status ps_agent_prepare(ps_agent *agent, const char *job_id, uint32_t attempt, int64_t now_us,
                           int64_t deadline_us)
{
    ps_status st = ps_agent_check(agent, job_id, attempt);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (agent->phase != PS_PHASE_RESERVED) {
        return wrong_phase(agent, "PreCommit");
    }
    agent->phase = PS_PHASE_PREPARING;
    agent->deadline_us = later(now_us, deadline_us);
    return ps_ok();
}

ps_status ps_agent_sealed(ps_agent *agent, int64_t now_us, int64_t wait_us)
{
    if (agent->phase != PS_PHASE_PREPARING) {
        return wrong_phase(agent, "the seal");
    }
    agent->phase = PS_PHASE_PREPARED;
    agent->deadline_us = later(now_us, wait_us);
    return ps_ok();
}

ps_status ps_agent_do_commit(ps_agent *agent, const char *job_id, uint32_t attempt, int64_t now_us,
                             int64_t ready_us, ps_agent_action *action)
{
    ps_status st = ps_agent_check(agent, job_id, attempt);

    *action = PS_AGENT_NOTHING;
    if (!ps_is_ok(&st)) {
        return st;
    }
    switch (agent->phase) {
    case PS_PHASE_PREPARED:
        agent->phase = PS_PHASE_READY;
        agent->deadline_us = later(now_us, ready_us);
        *action = PS_AGENT_GO_READY;
        return ps_ok();
    case PS_PHASE_READY:
    case PS_PHASE_RUNNING:
    case PS_PHASE_FINISHED:
    case PS_PHASE_FAILED:
        return ps_ok();
    case PS_PHASE_IDLE:
    case PS_PHASE_RESERVED:
    case PS_PHASE_PREPARING:
        break;
    }
    return wrong_phase(agent, "DoCommit");
}

ps_agent_action ps_agent_barrier(ps_agent *agent, bool opened)
{
    if (agent->phase != PS_PHASE_READY) {
        return PS_AGENT_NOTHING;
    }
    if (!opened) {
        return release(agent);
    }
    agent->phase = PS_PHASE_RUNNING;
    agent->deadline_us = INT64_MAX;
    return PS_AGENT_RUN;
}

void ps_agent_done(ps_agent *agent, const ps_status *result)
{
    bool failed = !ps_is_ok(result);

    if (agent->phase != PS_PHASE_RUNNING && !(agent->phase == PS_PHASE_READY && failed)) {
        return;
    }
    agent->phase = failed ? PS_PHASE_FAILED : PS_PHASE_FINISHED;
    agent->error = *result;
    agent->deadline_us = INT64_MAX;
}

void ps_agent_keep_until(ps_agent *agent, int64_t deadline_us)
{
    if (agent->phase == PS_PHASE_FINISHED || agent->phase == PS_PHASE_FAILED) {
        agent->deadline_us = deadline_us;
    }
}

ps_agent_action ps_agent_abort(ps_agent *agent, const char *job_id, uint32_t attempt)
{
    bool held = agent->phase != PS_PHASE_IDLE && strcmp(agent->job_id, job_id) == 0;

    if (held && attempt < agent->attempt) {
        return PS_AGENT_NOTHING;
    }
    /* If the node is idle, the abort may have overtaken the CanCommit of its attempt. The aborted
     * attempt becomes the fence, so that the CanCommit is refused when it arrives. While the node
     * holds another job, the fence stays that of the held job. */
    if (held || (agent->phase == PS_PHASE_IDLE && !is_over(agent, job_id, attempt))) {
        remember(agent, job_id, attempt, true);
    }
    return held ? release(agent) : PS_AGENT_NOTHING;
}

ps_agent_action ps_agent_give_up(ps_agent *agent)
{
    return agent->phase == PS_PHASE_PREPARING ? release(agent) : PS_AGENT_NOTHING;
}

ps_agent_action ps_agent_tick(ps_agent *agent, int64_t now_us)
{
    if (agent->phase == PS_PHASE_IDLE || now_us < agent->deadline_us) {
        return PS_AGENT_NOTHING;
    }
    return release(agent);
}
