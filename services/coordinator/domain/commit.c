/* SPDX-License-Identifier: Apache-2.0 */
/* commit.c - one attempt of a job, as a state machine.
 *
 * This file has the states from CAN_COMMIT to COLLECTING, commit_end.c has the end. An event is
 * noted, brings a member to its next step, or decides the outcome. When all members that are not
 * lost have reached the step, the state changes. commit_blame.c decides which node is to blame for
 * a failure.
 */
#include "services/coordinator/domain/commit.h"

#include "common/base/xalloc.h"
#include "services/coordinator/domain/commit_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If a server has sent so many heartbeats since all workers have finished, and still lacks
 * contributions, the workers that owe them have reported wrongly. Fewer heartbeats do not prove
 * that: the first ones may have been sent before, and the last contributions may be counted on
 * another thread. */
enum { OPEN_BEATS = 3 };

static void enter(ps_commit *c, Psgd__V1__JobState state, int64_t deadline_us)
{
    c->state = state;
    c->deadline_us = deadline_us;
    ps_commit_do(c, PS_COMMIT_CHANGED);
}

static void start(ps_commit *c, const ps_commit_conf *conf, const ps_member *members, size_t count,
                  int64_t now_us)
{
    assert(count > 0);
    *c = (ps_commit){.conf = *conf, .count = count, .blame_us = INT64_MAX, .retry_us = INT64_MAX};
    c->members = ps_xcalloc(count, sizeof *c->members);
    for (size_t i = 0; i < count; i++) {
        ps_member *m = &c->members[i];

        memcpy(m->id, members[i].id, sizeof m->id);
        memcpy(m->address, members[i].address, sizeof m->address);
        m->role = members[i].role;
        m->rank = members[i].rank;
        m->rank_count = members[i].rank_count;
        m->incarnation = members[i].incarnation;
        m->is_lost = m->is_spared = members[i].is_spared;
        m->seen_us = now_us;
    }
    ps_commit_init_waits(c);
}

void ps_commit_begin(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                     size_t count, int64_t now_us)
{
    start(c, conf, members, count, now_us);
    enter(c, PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT, now_us + conf->find_us);
}

static void collect_all(ps_commit *c, int64_t now_us)
{
    enter(c, PSGD__V1__JOB_STATE__JOB_STATE_COLLECTING, now_us + c->conf.collect_us);
    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];

        if (m->is_lost) {
            continue;
        }
        m->step = PS_MEMBER_OVER;
        m->files = PS_FILES_ASKED;
        ps_commit_do_at(c, i, PS_COMMIT_COLLECT);
    }
}

void ps_commit_adopt(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                     size_t count, Psgd__V1__JobState state, int64_t now_us)
{
    start(c, conf, members, count, now_us);
    c->is_adopted = true;
    for (size_t i = 0; i < count; i++) {
        c->members[i].step = PS_MEMBER_RUNNING;
    }
    if (state == PSGD__V1__JOB_STATE__JOB_STATE_COLLECTING) {
        collect_all(c, now_us);
    } else {
        enter(c, PSGD__V1__JOB_STATE__JOB_STATE_RUNNING, INT64_MAX);
    }
}

void ps_commit_adopt_end(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                         size_t count, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                         const char *reason, const char *message, bool is_stored, int64_t now_us)
{
    start(c, conf, members, count, now_us);
    for (size_t i = 0; i < count; i++) {
        c->members[i].step = PS_MEMBER_OVER;
    }
    c->state = state;
    c->outcome = outcome;
    c->decided_us = now_us;
    snprintf(c->reason, sizeof c->reason, "%s", reason);
    snprintf(c->message, sizeof c->message, "%s", message);
    c->stage = PS_STAGE_STORE;
    if (is_stored || outcome == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
        ps_commit_stored(c, &(ps_status){.code = PS_OK}, now_us);
    } else {
        ps_commit_do(c, PS_COMMIT_STORE);
    }
}

void ps_commit_fini(ps_commit *c)
{
    ps_waits_fini(&c->who_waits);
    free(c->members);
    c->members = NULL;
    c->count = 0;
}

/* Returns whether all members that are not lost have reached `step`. */
static bool all_at(const ps_commit *c, ps_member_step step)
{
    for (size_t i = 0; i < c->count; i++) {
        if (!c->members[i].is_lost && c->members[i].step < step) {
            return false;
        }
    }
    return true;
}

static bool is_in(const ps_commit *c, Psgd__V1__JobState state)
{
    return c->stage == PS_STAGE_GOING && c->state == state;
}

void ps_commit_started(ps_commit *c, int64_t now_us)
{
    if (!is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT)) {
        return;
    }
    c->has_asked = true;
    c->deadline_us = now_us + c->conf.can_commit_us;
    for (size_t i = 0; i < c->count; i++) {
        c->members[i].step = PS_MEMBER_ASKED;
        ps_commit_do_at(c, i, PS_COMMIT_ASK);
    }
}

void ps_commit_reserved(ps_commit *c, size_t node, const char *id, uint64_t incarnation,
                        int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (!is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT) || m->step != PS_MEMBER_ASKED) {
        return;
    }
    snprintf(m->id, sizeof m->id, "%s", id);
    m->incarnation = incarnation;
    m->seen_us = now_us;
    for (size_t i = 0; i < c->count; i++) {
        if (i != node && c->members[i].step == PS_MEMBER_RESERVED &&
            strcmp(c->members[i].id, id) == 0) {
            ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, "NODE_TWICE", now_us,
                             "%s and %s are the same node, %s", c->members[i].address, m->address,
                             id);
            return;
        }
    }
    m->step = PS_MEMBER_RESERVED;
    if (!all_at(c, PS_MEMBER_RESERVED)) {
        return;
    }
    enter(c, PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT, now_us + c->conf.make_us);
    for (size_t i = 0; i < c->count; i++) {
        c->members[i].seen_us = now_us;
    }
    ps_commit_do(c, PS_COMMIT_MAKE);
}

void ps_commit_packaged(ps_commit *c, int64_t pre_commit_us, int64_t now_us)
{
    if (!is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT) || c->has_packages) {
        return;
    }
    c->has_packages = true;
    c->conf.pre_commit_us = pre_commit_us;
    c->deadline_us = now_us + pre_commit_us;
    for (size_t i = 0; i < c->count; i++) {
        ps_commit_do_at(c, i, PS_COMMIT_PREPARE);
    }
}

void ps_commit_unreserved(ps_commit *c, size_t node, const ps_status *why, int64_t now_us)
{
    if (c->stage == PS_STAGE_GOING && c->state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        ps_commit_interrupt(c, "RESERVATION_LOST", now_us, "%s: %s",
                            ps_member_name(&c->members[node]).text, why->text);
    }
}

void ps_commit_busy(ps_commit *c, size_t node, const char *id, const char *holder, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (!is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT) || m->step != PS_MEMBER_ASKED) {
        return;
    }
    if (id[0] != '\0') {
        snprintf(m->id, sizeof m->id, "%s", id);
    }
    /* the node does not hold the attempt, so there is nothing to release */
    m->is_releasing = m->is_released = true;
    ps_commit_decide(c,
                     c->conf.nodes_are_named || c->conf.fails_if_busy
                         ? PSGD__V1__JOB_STATE__JOB_STATE_FAILED
                         : PSGD__V1__JOB_STATE__JOB_STATE_QUEUED,
                     "NODE_BUSY", now_us, "%s is held by %s", ps_member_name(m).text, holder);
}

/* Returns the outcome of a job of which a node does not answer CanCommit: QUEUED, so that it gets
 * other nodes; FAILED if the user named the nodes. */
static Psgd__V1__JobState silence_outcome(const ps_commit *c)
{
    return c->conf.nodes_are_named ? PSGD__V1__JOB_STATE__JOB_STATE_FAILED
                                   : PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
}

void ps_commit_full(ps_commit *c, size_t node, const ps_status *why, int64_t now_us)
{
    if (c->stage == PS_STAGE_GOING && c->state < PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT) {
        ps_commit_decide(c,
                         c->conf.fails_if_busy ? PSGD__V1__JOB_STATE__JOB_STATE_FAILED
                                               : PSGD__V1__JOB_STATE__JOB_STATE_QUEUED,
                         "NODE_FULL", now_us, "the disk of %s is full: %s",
                         ps_member_name(&c->members[node]).text, why->text);
    }
}

/* Returns whether an answer with this code shows that the node is gone: nobody answers, its process
 * is being stopped, or another service has its port (UNIMPLEMENTED). A process that is being
 * stopped drops the call (CANCELLED) or, after CanCommit, the attempt that it holds (ABORTED). */
static bool is_of_gone_node(const ps_commit *c, ps_code code)
{
    return code == PS_UNAVAILABLE || code == PS_DEADLINE_EXCEEDED || code == PS_CANCELLED ||
           code == PS_UNIMPLEMENTED ||
           (code == PS_ABORTED && c->state > PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT);
}

void ps_commit_refused(ps_commit *c, size_t node, const ps_status *why, int64_t now_us)
{
    ps_member *m = &c->members[node];
    Psgd__V1__JobState outcome = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    const char *reason = "PRE_COMMIT_FAILED";

    if (c->stage != PS_STAGE_GOING || c->state > PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT) {
        return; /* the outcome is decided, or the job runs: then heartbeats tell of failures */
    }
    if (is_of_gone_node(c, why->code)) {
        m->is_lost = true;
        reason = "NODE_UNREACHABLE";
        if (c->state == PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT) {
            m->is_silent = true;
            outcome = silence_outcome(c);
        }
    } else if (c->state == PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT) {
        reason = "NODE_REFUSED";
    } else if (c->state == PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT) {
        reason = "DO_COMMIT_FAILED";
    }
    if (m->is_lost && outcome == PSGD__V1__JOB_STATE__JOB_STATE_FAILED && !m->is_silent) {
        bool is_worker = m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;

        ps_commit_decide_loss(c, is_worker, !is_worker, reason, now_us, "%s: %s: %s",
                              ps_member_name(m).text, ps_code_name(why->code), why->text);
    } else {
        ps_commit_decide(c, outcome, reason, now_us, "%s: %s: %s", ps_member_name(m).text,
                         ps_code_name(why->code), why->text);
    }
}

void ps_commit_prepared(ps_commit *c, size_t node, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (!is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT) || m->step != PS_MEMBER_RESERVED) {
        return;
    }
    m->seen_us = now_us;
    m->step = PS_MEMBER_PREPARED;
    if (!all_at(c, PS_MEMBER_PREPARED)) {
        return;
    }
    enter(c, PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT, now_us + c->conf.ready_us);
    for (size_t i = 0; i < c->count; i++) {
        ps_commit_do_at(c, i, PS_COMMIT_START);
    }
}

ps_status ps_commit_ready(ps_commit *c, size_t node, uint64_t incarnation, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (c->stage != PS_STAGE_GOING || m->is_lost) {
        return ps_fail(PS_ABORTED, "the attempt is over");
    }
    if (m->incarnation != 0 && incarnation != m->incarnation) {
        return ps_fail(PS_ABORTED, "another process of this node was asked");
    }
    m->seen_us = now_us;
    if (c->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING && m->step >= PS_MEMBER_RUNNING) {
        m->incarnation = incarnation;
        /* The node calls Ready again, because it did not get the answer to its first call. */
        ps_commit_do_at(c, node, PS_COMMIT_OPEN);
        return ps_ok();
    }
    if (c->state != PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT) {
        return ps_fail(PS_ABORTED, "there is no barrier to stand at");
    }
    if (!c->barrier_begun) {
        c->barrier_begun = true;
        c->deadline_us = now_us + c->conf.ready_us;
    }
    m->step = PS_MEMBER_WAITING;
    if (!all_at(c, PS_MEMBER_WAITING)) {
        return ps_ok();
    }
    enter(c, PSGD__V1__JOB_STATE__JOB_STATE_RUNNING, INT64_MAX);
    for (size_t i = 0; i < c->count; i++) {
        c->members[i].step = PS_MEMBER_RUNNING;
        c->members[i].seen_us = now_us;
        ps_commit_do_at(c, i, PS_COMMIT_OPEN);
    }
    return ps_ok();
}

static bool is_worker(const ps_member *m)
{
    return m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
}

/* Returns whether all workers that are not lost have reported that they finished, and no node that
 * is not lost has reported a failure that another node may have caused. */
static bool have_workers_finished(const ps_commit *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        if (!m->is_lost && (m->is_blamed || (is_worker(m) && m->step != PS_MEMBER_OVER))) {
            return false;
        }
    }
    return true;
}

/* Returns whether each server that is not lost has finished, or has sent OPEN_BEATS heartbeats
 * since all workers have finished. Of a server of the second kind, the ranks whose contributions it
 * lacks fail the attempt, as their workers reported wrongly; then returns false. */
static bool have_servers_finished(ps_commit *c, int64_t now_us)
{
    for (size_t i = 0; i < c->count && c->stage == PS_STAGE_GOING; i++) {
        ps_member *m = &c->members[i];

        if (m->is_lost || is_worker(m) || m->step == PS_MEMBER_OVER) {
            continue;
        }
        if (m->open_beats < OPEN_BEATS) {
            return false;
        }
        ps_commit_accuse_missing(c, i, now_us);
    }
    return c->stage == PS_STAGE_GOING;
}

/* Begins to collect files, if all workers have finished and all servers have their
 * contributions. */
static void finish_run(ps_commit *c, int64_t now_us)
{
    if (is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) && have_workers_finished(c) &&
        have_servers_finished(c, now_us)) {
        collect_all(c, now_us);
    }
}

/* Handles a heartbeat that says that the node does not hold the attempt. The first one may have
 * been sent before the node was reserved, so only two in a row are believed. Ignores it before
 * DO_COMMIT, and when the node's files are collected. */
static void take_idle(ps_commit *c, size_t node, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (c->stage != PS_STAGE_GOING || c->state < PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT ||
        m->files == PS_FILES_HERE) {
        return;
    }
    if (++m->idle_beats >= 2 && c->state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        ps_commit_interrupt(c, "RESERVATION_LOST", now_us, "%s no longer holds the job",
                            ps_member_name(m).text);
    } else if (m->idle_beats >= 2 && c->is_adopted) {
        ps_commit_found_released(c, node, now_us);
    } else if (m->idle_beats >= 2) {
        ps_commit_lose(c, node, "NODE_LOST", "it no longer holds the job", now_us);
    }
}

void ps_commit_beat(ps_commit *c, size_t node, uint64_t incarnation, bool holds,
                    Psgd__V1__NodePhase phase, const ps_status *error, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (c->stage == PS_STAGE_OVER || m->is_lost) {
        return;
    }
    if (m->incarnation != 0 && incarnation != m->incarnation) {
        ps_commit_restarted(c, node, incarnation, now_us);
        return;
    }
    if (now_us - m->seen_us >= c->conf.silent_us) {
        m->pause_us = now_us - m->seen_us;
        m->pause_end_us = now_us;
    }
    m->seen_us = now_us;
    m->beats++;
    if (!holds) {
        take_idle(c, node, now_us);
    } else {
        m->idle_beats = 0;
        m->incarnation = incarnation;
        if (is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) && m->step != PS_MEMBER_OVER) {
            if (phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED) {
                ps_commit_take_failure(c, node, error, now_us);
            } else if (phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED) {
                m->step = PS_MEMBER_OVER;
            } else if (!is_worker(m) && have_workers_finished(c)) {
                m->open_beats++;
            }
        } else if (c->stage == PS_STAGE_GOING &&
                   c->state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING &&
                   phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED) {
            m->error = *error;
            ps_commit_lose(c, node, "NODE_FAILED", error->text, now_us);
        }
    }
    ps_commit_settle_blame(c, now_us);
    finish_run(c, now_us);
    ps_commit_settle(c, now_us);
}

void ps_commit_seen(ps_commit *c, size_t node, int64_t now_us)
{
    c->members[node].seen_us = now_us;
}

/* The message about a node whose process has ended. It is the same whether the coordinator noticed
 * that the connection broke, or that another process of the node registered. */
static const char process_ended[] = "its process has ended";

void ps_commit_gone(ps_commit *c, size_t node, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (m->is_lost || m->is_gone) {
        return;
    }
    m->is_gone = true;
    if (is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT)) {
        ps_status why = ps_fail(PS_UNAVAILABLE, "%s", process_ended);

        ps_commit_refused(c, node, &why, now_us);
    } else if (m->files != PS_FILES_HERE && c->stage < PS_STAGE_STORE) {
        ps_commit_lose(c, node, "NODE_LOST", process_ended, now_us);
        finish_run(c, now_us);
    } else {
        ps_commit_name_too(c, m, "NODE_LOST", process_ended);
    }
    ps_commit_settle(c, now_us);
}

void ps_commit_restarted(ps_commit *c, size_t node, uint64_t incarnation, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (m->is_lost || m->is_gone || m->incarnation == 0 || m->incarnation == incarnation ||
        m->files == PS_FILES_HERE) {
        return;
    }
    if (is_in(c, PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT) && m->step <= PS_MEMBER_ASKED) {
        /* The node has not answered CanCommit, so its earlier process holds nothing. The job goes
         * back to the queue; if the user named the nodes, the new process may answer instead. */
        m->incarnation = 0;
        if (!c->conf.nodes_are_named) {
            ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_QUEUED, "NODE_RESTARTED", now_us,
                             "%s was started anew", ps_member_name(m).text);
        }
        return;
    }
    if (c->stage == PS_STAGE_GOING && c->state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        m->is_lost = true; /* the new process holds nothing of the attempt */
        ps_commit_interrupt(c, "NODE_RESTARTED", now_us, "%s was started anew",
                            ps_member_name(m).text);
        return;
    }
    ps_commit_lose(c, node, "NODE_LOST", process_ended, now_us);
    finish_run(c, now_us);
    ps_commit_settle(c, now_us);
}

void ps_commit_collected(ps_commit *c, size_t node, const ps_status *result, int64_t now_us)
{
    ps_member *m = &c->members[node];

    if (m->files != PS_FILES_ASKED || c->stage >= PS_STAGE_STORE) {
        return;
    }
    m->seen_us = now_us;
    m->files = ps_is_ok(result) ? PS_FILES_HERE : PS_FILES_LOST;
    ps_commit_go_on(c);
    if (!ps_is_ok(result) && c->stage == PS_STAGE_GOING) {
        ps_commit_lose(c, node, "COLLECT_FAILED", result->text, now_us);
    } else if (!ps_is_ok(result)) {
        char what[PS_COMMIT_NODE_ID_MAX + 40];

        snprintf(what, sizeof what, "the files of %s are not here", m->id);
        ps_commit_confess(c, what, result->text);
    }
    ps_commit_settle(c, now_us);
}

/* Fails the job because the coordinator did not find the data of the packages, or make them, within
 * limit_us. */
static void expire_package(ps_commit *c, int64_t limit_us, int64_t now_us)
{
    ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, "PACKAGE_TIMEOUT", now_us,
                     "the coordinator did not make the packages of the job within %.1f s",
                     (double)limit_us / 1e6);
}

static void expire(ps_commit *c, int64_t now_us)
{
    const Psgd__V1__JobState failed = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;

    switch (c->state) {
    case PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT:
        if (!c->has_asked) {
            expire_package(c, c->conf.find_us, now_us);
        } else {
            ps_commit_expire(c, silence_outcome(c), PS_MEMBER_RESERVED, "CAN_COMMIT_TIMEOUT",
                             "answer CanCommit", c->conf.can_commit_us, now_us);
        }
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT:
        if (!c->has_packages) {
            expire_package(c, c->conf.make_us, now_us);
        } else {
            ps_commit_expire(c, failed, PS_MEMBER_PREPARED, "PRE_COMMIT_TIMEOUT",
                             "take its packages", c->conf.pre_commit_us, now_us);
        }
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT:
        ps_commit_expire(c, failed, PS_MEMBER_WAITING, "READY_TIMEOUT", "come to the barrier",
                         c->conf.ready_us, now_us);
        break;
    default:
        break; /* RUNNING has no deadline but leases; settle_collecting ends COLLECTING */
    }
}

/* Returns whether a silence of lease_us makes the member lost. It does not before PRE_COMMIT, where
 * only the deadline of CanCommit counts, when the member's files are collected, and when the
 * outcome is decided, unless members still give the state that is left. */
static bool lease_runs(const ps_commit *c, const ps_member *m)
{
    return (c->stage == PS_STAGE_GOING || c->stage == PS_STAGE_RESCUE) && !m->is_lost &&
           m->files != PS_FILES_HERE && c->state >= PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT;
}

void ps_commit_tick(ps_commit *c, int64_t now_us)
{
    char why[80];

    for (size_t i = 0; i < c->count; i++) {
        if (!lease_runs(c, &c->members[i]) || now_us - c->members[i].seen_us < c->conf.lease_us) {
            continue;
        }
        snprintf(why, sizeof why, "no heartbeat for %.1f s",
                 (double)(now_us - c->members[i].seen_us) / 1e6);
        ps_commit_lose(c, i, "NODE_LOST", why, now_us);
    }
    ps_commit_settle_blame(c, now_us);
    finish_run(c, now_us);
    if (now_us >= c->retry_us) {
        ps_commit_retry(c, now_us);
    }
    if (c->stage == PS_STAGE_GOING && now_us >= c->deadline_us) {
        expire(c, now_us);
    }
    ps_commit_settle(c, now_us);
}

int64_t ps_commit_deadline(const ps_commit *c)
{
    bool has_deadline = (c->stage == PS_STAGE_GOING || c->stage == PS_STAGE_RESCUE ||
                         c->stage == PS_STAGE_SALVAGE || c->stage == PS_STAGE_RELEASE) &&
                        !ps_commit_is_held(c);
    int64_t soonest = has_deadline ? c->deadline_us : INT64_MAX;

    if (c->stage == PS_STAGE_OVER) {
        return INT64_MAX;
    }
    if (c->retry_us < soonest) {
        soonest = c->retry_us;
    }
    if (c->stage == PS_STAGE_GOING && c->blame_us < soonest) {
        soonest = c->blame_us;
    }
    for (size_t i = 0; i < c->count; i++) {
        if (lease_runs(c, &c->members[i]) && c->members[i].seen_us + c->conf.lease_us < soonest) {
            soonest = c->members[i].seen_us + c->conf.lease_us;
        }
    }
    return soonest;
}
