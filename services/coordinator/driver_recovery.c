/* SPDX-License-Identifier: Apache-2.0 */
/* driver_recovery.c - what an attempt notes in its job about losses and changes of its nodes
 * (domain/recoveries.h). */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "services/coordinator/domain/recoveries.h"

#include <stdio.h>

enum {
    /* pause after an attempt that was lost before it trained; twice as long after the next such
     * one */
    FIRST_PAUSE_US = 100000,
    LONGEST_PAUSE_US = 5000000
};

void ps_attempt_trains(ps_attempt *a)
{
    ps_live *job = a->job;
    Psgd__V1__Job *msg = job->record.job;
    uint64_t step = ps_checkpoint_step(a->plan, a->package ? a->package->first_clock : 0);

    if (ps_recovery_is_open(msg)) {
        /* Ranks that kept their state are at the step of their last reports, or a later one. */
        step = job->carries_on ? ps_recovery_step(msg, step) : step;
        ps_recovery_close(msg, step, ps_clock_wall_us());
        ps_job_progress(msg)->step = step;
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "trains again after %.3f s, from step %llu",
                    msg->recoveries[msg->n_recoveries - 1]->seconds, (unsigned long long)step);
    }
    job->lost_us = job->pause_us = job->not_before_us = 0;
    job->carries_on = false;
    a->move.since_us = ps_coordinator_now_us(a->c);
}

bool ps_attempt_may_roll_back(const ps_attempt *a)
{
    const Psgd__V1__RecoverySpec *recovery = a->plan->spec->recovery;

    return recovery->on_divergence == PSGD__V1__DIVERGENCE_ACTION__DIVERGENCE_ACTION_ROLLBACK &&
           a->job->record.job->rollbacks < recovery->max_rollbacks &&
           recovery->halvings < PS_HALVINGS_MAX;
}

void ps_attempt_halve_rate(const ps_attempt *a, Psgd__V1__JobSpec *spec,
                           Psgd__V1__RecoverySpec *recovery)
{
    if (spec->recovery != NULL) { /* NULL: the job is of an older program, which has no recovery */
        *recovery = *spec->recovery;
        recovery->halvings += a->job->record.job->rollbacks;
        spec->recovery = recovery;
    }
}

ps_status ps_attempt_note_failure(ps_attempt *a, size_t i, const Psgd__V1__HeartbeatRequest *beat,
                                  bool holds)
{
    ps_code code =
        beat->error_code >= 1 && beat->error_code <= 16 ? (ps_code)beat->error_code : PS_UNKNOWN;
    ps_node_entry *node = ps_nodes_find(&a->c->nodes, beat->node_id);

    if (holds && beat->diverged) {
        ps_commit_diverged(&a->commit, i);
    }
    if (holds && beat->disk != NULL && beat->disk->is_low) {
        ps_commit_low_disk(&a->commit, i);
    }
    if (holds && code == PS_RESOURCE_EXHAUSTED && node != NULL) {
        ps_node_set_short(node, ps_coordinator_now_us(a->c)); /* the next attempt tries others */
    }
    return ps_fail(code, "%s", beat->error[0] ? beat->error : "it does not say why");
}

static uint64_t step_of(const ps_live *job)
{
    return job->record.job->progress != NULL ? job->record.job->progress->step : 0;
}

void ps_attempt_note_loss(ps_attempt *a)
{
    ps_live *job = a->job;
    int64_t now_us = ps_coordinator_now_us(a->c);

    if (a->commit.state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        job->pause_us = job->pause_us == 0 ? FIRST_PAUSE_US : 2 * job->pause_us;
        job->pause_us = job->pause_us < LONGEST_PAUSE_US ? job->pause_us : LONGEST_PAUSE_US;
        job->not_before_us = now_us + job->pause_us;
    }
    /* Ranks that are carried on train until they are parked, so their step is that of now. Others
     * may finish one step more while servers are asked for their clocks, by a contribution of the
     * lost worker that was still on its way. */
    ps_recovery_add(job->record.job, &a->commit,
                    a->rescue.has_begun && !a->commit.conf.carries ? a->rescue.step : step_of(job),
                    now_us, ps_clock_wall_us());
    ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                "attempt %u %s: %s; another one follows", a->number,
                a->commit.is_rollback ? "has diverged" : "is lost", a->commit.message);
}

void ps_attempt_note_spared(ps_attempt_node *node)
{
    const ps_member *m = ps_attempt_node_member(node);
    ps_attempt *a = node->a;
    Psgd__V1__Job *msg = a->job->record.job;

    ps_recovery_add_spared(msg, &a->commit, node->index, step_of(a->job),
                           ps_coordinator_now_us(a->c), ps_clock_wall_us());
    ps_job_progress(msg)->workers_alive = ps_commit_workers_alive(&a->commit);
    ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)), "%s",
                m->spared.message);
    ps_live_set_state(a->job, msg->state, m->spared.reason, m->spared.message);
}

void ps_attempt_move(ps_attempt *a, const char *reason, const char *message, uint64_t step)
{
    a->move.step = step;
    ps_commit_move(&a->commit, reason, message, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

void ps_attempt_drain(ps_attempt_node *node, uint64_t step)
{
    const ps_member *m = ps_attempt_node_member(node);
    char text[PS_COMMIT_NODE_ID_MAX + 40];

    snprintf(text, sizeof text, "%s %s was told to stop",
             m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? "worker" : "parameter server",
             m->id);
    ps_attempt_move(node->a, "DRAINED", text, step);
}

static void may_grow(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step)
{
    ps_attempt *a = wait->a;
    char text[80];

    a->move.grows = false;
    a->move.since_us = ps_coordinator_now_us(a->c);
    if (ps_is_ok(result)) {
        size_t n = 0;

        if (a->move.idle_workers > 0) {
            n = (size_t)snprintf(text, sizeof text, "%u idle worker%s", a->move.idle_workers,
                                 a->move.idle_workers == 1 ? "" : "s");
        }
        if (a->move.idle_servers > 0) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%u idle parameter server%s",
                                  n > 0 ? " and " : "", a->move.idle_servers,
                                  a->move.idle_servers == 1 ? "" : "s");
        }
        snprintf(text + n, sizeof text - n, " joined");
        ps_attempt_move(a, "JOINED", text, step);
    }
}

bool ps_attempt_grow(ps_attempt *a, uint32_t workers, uint32_t servers)
{
    bool is_training = a->commit.stage == PS_STAGE_GOING &&
                       a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;

    if (!is_training ||
        (!a->move.grows && ps_coordinator_now_us(a->c) - a->move.since_us < a->c->conf.grow_us)) {
        return false;
    }
    if (!a->move.grows) {
        a->move.grows = true;
        a->move.idle_workers = workers;
        a->move.idle_servers = servers;
        a->move.wait = (ps_checkpoint_wait){.told = may_grow, .stays = true};
        ps_attempt_await_checkpoint(a, 0, &a->move.wait);
    }
    return true;
}

void ps_attempt_note_move(ps_attempt *a)
{
    Psgd__V1__Recovery *r = ps_recovery_add_move(a->job->record.job, &a->commit, a->move.step,
                                                 a->move.asked_wall_us, a->move.stood_wall_us);

    r->node_ids = ps_xcalloc(a->commit.count, sizeof *r->node_ids);
    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->nodes[i].last.is_asked) {
            r->node_ids[r->n_node_ids++] = ps_xstrdup(a->commit.members[i].id);
        }
    }
    ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                "attempt %u ends at step %llu: %s; another one follows", a->number,
                (unsigned long long)a->move.step, a->commit.message);
}

void ps_attempt_sum_up(ps_attempt *a)
{
    if (!a->is_summed_up) {
        a->is_summed_up = true;
        ps_recovery_sum_up(a->job->record.job, ps_clock_wall_us());
    }
}
