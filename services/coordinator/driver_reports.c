/* SPDX-License-Identifier: Apache-2.0 */
/* driver_reports.c - what the nodes of an attempt say: heartbeats, registrations and Ready. */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

/* Writes the ranks of lost workers, at most PS_LOST_MAX, into the answer to a server: it need not
 * wait for them. */
static void name_lost(const ps_attempt *a, Psgd__V1__HeartbeatResponse *answer)
{
    for (size_t i = 0; i < a->commit.count && answer->n_lost_workers < PS_LOST_MAX; i++) {
        const ps_member *m = &a->commit.members[i];

        for (uint32_t k = 0; m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER && m->is_lost &&
                             k < m->rank_count && answer->n_lost_workers < PS_LOST_MAX;
             k++) {
            answer->lost_workers[answer->n_lost_workers++] = m->rank + k;
        }
    }
}

/* Returns whether a rank is at the last step, or beyond it if rounds vary. */
static bool is_at_end(const ps_attempt *a, const Psgd__V1__WorkerProgress *told)
{
    uint64_t steps = a->plan->total_steps;

    return told != NULL && (told->step == steps || (a->plan->rounds_vary && told->step > steps));
}

/* Checks the reports of a worker process that says it has finished: each of its ranks must be at
 * the end of the job, or at the clock where all workers end early. In a job that computes, all
 * partitions must be done instead. Otherwise fails the attempt. */
static void check_end(ps_attempt *a, size_t node, int64_t now_us)
{
    const ps_member *m = &a->commit.members[node];
    uint64_t steps = a->plan->total_steps;
    char why[100];

    for (uint32_t r = m->rank; r - m->rank < m->rank_count && r < a->placement.rank_count; r++) {
        const Psgd__V1__WorkerProgress *told = a->told[r].progress;

        if (a->partitions ? !ps_partitions_are_done(a)
                          : !ps_attempt_ended_early(a, r) && !is_at_end(a, told)) {
            snprintf(why, sizeof why, "its rank %u is at step %llu of %llu", r,
                     told != NULL ? (unsigned long long)told->step : 0, (unsigned long long)steps);
            ps_commit_lied(&a->commit, node, why, now_us);
            return;
        }
    }
}

/* Notes for which workers' contributions the server waits. Returns whether the job ends early, at a
 * clock that the running server has reached: it then has all contributions, but does not know of
 * the end. */
static bool take_missing(ps_attempt *a, size_t node, const Psgd__V1__HeartbeatRequest *beat)
{
    uint64_t early = ps_attempt_early_end(a);
    bool has_all = early > 0 && beat->missing_clock >= early &&
                   beat->phase == PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING;

    ps_commit_waits(&a->commit, node, a->commit.members[node].rank, NULL, 0, beat->missing_workers,
                    has_all ? 0 : beat->n_missing_workers);
    ps_progress_waits(a, ps_clock_us());
    return has_all;
}

/* Fails the job if the report is of a server of a job that computes whose code has failed. */
static void check_code(ps_attempt *a, size_t node, const ps_status *error, int64_t now_us)
{
    if (a->partitions && error->code == PS_FAILED_PRECONDITION &&
        a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING &&
        a->commit.members[node].role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER) {
        ps_commit_fail(&a->commit, "CODE_FAILED", error, now_us);
    }
}

void ps_attempt_beat(ps_attempt *a, const Psgd__V1__HeartbeatRequest *beat,
                     Psgd__V1__HeartbeatResponse *answer)
{
    size_t i = ps_commit_find(&a->commit, beat->node_id);
    Psgd__V1__NodePhase phase = beat->phase;
    bool holds = strcmp(beat->job_id, a->job_id) == 0 && beat->attempt == a->number;
    int64_t now_us = ps_coordinator_now_us(a->c);
    ps_status error = ps_ok();

    if (i == a->commit.count) {
        return;
    }
    if (beat->phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED) {
        error = ps_attempt_note_failure(a, i, beat, holds);
    }
    if (holds && (a->commit.members[i].incarnation == 0 ||
                  a->commit.members[i].incarnation == beat->incarnation)) {
        check_code(a, i, &error, now_us);
    }
    if (holds) {
        ps_attempt_node_take_log(&a->nodes[i], beat, answer);
        if (a->commit.members[i].role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER) {
            name_lost(a, answer);
            if (take_missing(a, i, beat)) {
                phase = PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED;
            }
        }
        if (a->commit.members[i].is_lost || a->commit.members[i].is_releasing) {
            answer->directive = PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_ABORT;
            answer->is_lost = a->commit.outcome != PSGD__V1__JOB_STATE__JOB_STATE_DONE;
        } else if (beat->n_progress > 0) {
            ps_progress_take(a, &a->nodes[i], beat->progress, beat->n_progress, ps_clock_us());
            ps_attempt_guide(a, answer);
        }
        ps_checkpoints_beat(a, i, beat, answer);
        ps_traces_beat(a, i, answer);
    }
    if (holds && beat->phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED &&
        beat->incarnation == a->commit.members[i].incarnation &&
        a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING &&
        a->commit.members[i].role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
        check_end(a, i, now_us);
    }
    ps_commit_beat(&a->commit, i, beat->incarnation, holds, phase, &error, now_us);
    ps_attempt_pump(a);
}

void ps_attempt_expel(ps_attempt *a, const char *node_id)
{
    size_t i = ps_commit_find(&a->commit, node_id);
    int64_t now_us = ps_coordinator_now_us(a->c);

    if (i < a->commit.count) {
        ps_commit_seen(&a->commit, i, now_us - a->commit.conf.lease_us);
        ps_commit_tick(&a->commit, now_us);
        ps_attempt_pump(a);
    }
}

void ps_attempt_registered(ps_attempt *a, const ps_node_entry *node)
{
    size_t i = ps_commit_find(&a->commit, node->id);

    if (i == a->commit.count) {
        return;
    }
    ps_commit_restarted(&a->commit, i, node->incarnation, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

static void ready_gone(void *arg, ps_call *call)
{
    ps_attempt_node *p = arg;

    if (p->ready == call) {
        p->ready = NULL;
    }
}

void ps_attempt_ready(ps_attempt *a, const Psgd__V1__ReadyRequest *request, ps_call *call)
{
    size_t i = ps_commit_find(&a->commit, request->node_id);
    ps_status st = ps_fail(PS_ABORTED, "attempt %u does not have this node", request->attempt);
    ps_status again = ps_fail(PS_ABORTED, "another Ready of this node came");

    if (i < a->commit.count) {
        st = ps_commit_ready(&a->commit, i, request->incarnation, ps_coordinator_now_us(a->c));
    }
    if (!ps_is_ok(&st)) {
        ps_call_fail(call, st);
        return;
    }
    ps_attempt_node_answer_ready(&a->nodes[i], &again);
    a->nodes[i].ready = call;
    ps_call_on_gone(call, ready_gone, &a->nodes[i]);
    ps_attempt_pump(a);
}
