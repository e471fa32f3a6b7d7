/* SPDX-License-Identifier: Apache-2.0 */
/* recoveries.c - see recoveries.h. */
#include "services/coordinator/domain/recoveries.h"

#include "common/base/xalloc.h"
#include "services/coordinator/domain/job_message.h"

#include <stdlib.h>
#include <string.h>

static double seconds_of(const Google__Protobuf__Timestamp *time)
{
    return time != NULL ? (double)time->seconds + time->nanos * 1e-9 : 0;
}

static double at_least_0(double x)
{
    return x > 0 ? x : 0; /* the wall clock may have been set back */
}

/* Returns the newest recovery that is closed; NULL: there is none. */
static const Psgd__V1__Recovery *last_closed(const Psgd__V1__Job *job)
{
    for (size_t i = job->n_recoveries; i-- > 0;) {
        if (job->recoveries[i]->seconds > 0) {
            return job->recoveries[i];
        }
    }
    return NULL;
}

/* Returns when the attempt began to train that runs or ends now, in seconds since 1970; 0: no
 * attempt has trained. */
static double trains_since(const Psgd__V1__Job *job)
{
    const Psgd__V1__Recovery *last = last_closed(job);

    return last != NULL ? seconds_of(last->notice_time) + last->seconds
                        : seconds_of(job->start_time);
}

static bool is_open(const Psgd__V1__Recovery *r)
{
    return r->seconds <= 0 && !r->is_survived;
}

bool ps_recovery_is_open(const Psgd__V1__Job *job)
{
    return job->n_recoveries > 0 && is_open(job->recoveries[job->n_recoveries - 1]);
}

/* Returns the place of a new recovery at the end of the job's list. Drops the oldest one if the
 * list has PS_RECOVERIES_KEPT. */
static Psgd__V1__Recovery **grow(Psgd__V1__Job *job)
{
    if (job->n_recoveries == PS_RECOVERIES_KEPT) {
        psgd__v1__recovery__free_unpacked(job->recoveries[0], NULL);
        job->n_recoveries--;
        memmove(job->recoveries, job->recoveries + 1,
                job->n_recoveries * sizeof(Psgd__V1__Recovery *));
    }
    job->recoveries =
        ps_xrealloc(job->recoveries, (job->n_recoveries + 1) * sizeof(Psgd__V1__Recovery *));
    return &job->recoveries[job->n_recoveries++];
}

/* Adds a member to the lost nodes; r->node_ids has room for it. */
static void name(Psgd__V1__Recovery *r, const ps_member *m, int64_t noticed_us)
{
    double silent_s = (double)(noticed_us - m->seen_us) * 1e-6;

    r->node_ids[r->n_node_ids++] = ps_xstrdup(m->id[0] ? m->id : m->address);
    r->silent_seconds = silent_s > r->silent_seconds ? silent_s : r->silent_seconds;
}

static void name_lost(Psgd__V1__Recovery *r, const ps_commit *commit)
{
    r->node_ids = ps_xcalloc(commit->count, sizeof *r->node_ids);
    for (size_t i = 0; i < commit->count; i++) {
        const ps_member *m = &commit->members[i];
        bool is_full = m->has_low_disk && m->error.code == PS_RESOURCE_EXHAUSTED;

        if (((m->is_lost || m->is_gone) && !m->is_spared) || m->is_culprit || m->has_left ||
            is_full) {
            name(r, m, commit->decided_us);
        }
    }
}

/* Adds a recovery to the job. Sets the fields that all kinds have in common. */
static Psgd__V1__Recovery *add(Psgd__V1__Job *job, const ps_commit *commit, const char *reason,
                               const char *message, uint64_t step, int64_t wall_us)
{
    bool has_trained = commit->state >= PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
    double since_s = trains_since(job);
    Psgd__V1__Recovery **at = grow(job), *r = ps_xmalloc(sizeof *r);

    *at = r;
    psgd__v1__recovery__init(r);
    r->attempt = job->attempt;
    ps_text_set(&r->reason, reason);
    ps_text_set(&r->message, message);
    ps_time_set(&r->notice_time, wall_us);
    r->step = step;
    r->train_seconds = has_trained ? at_least_0((double)wall_us * 1e-6 - since_s) : 0;
    ps_job_progress(job)->recoveries++;
    return r;
}

void ps_recovery_add(Psgd__V1__Job *job, const ps_commit *commit, uint64_t step, int64_t now_us,
                     int64_t wall_us)
{
    name_lost(add(job, commit, commit->reason, commit->message, step,
                  wall_us - (now_us - commit->decided_us)),
              commit);
    *(commit->is_rollback ? &job->rollbacks : &job->restarts) += 1;
    ps_job_progress(job)->rollbacks = job->rollbacks;
}

Psgd__V1__Recovery *ps_recovery_add_move(Psgd__V1__Job *job, const ps_commit *commit, uint64_t step,
                                         int64_t asked_wall_us, int64_t wall_us)
{
    uint64_t told = job->progress != NULL ? job->progress->step : 0;
    Psgd__V1__Recovery *r =
        add(job, commit, commit->reason, commit->message, told > step ? told : step, wall_us);

    r->is_planned = true;
    ps_time_set(&r->ask_time, asked_wall_us);
    return r;
}

void ps_recovery_add_spared(Psgd__V1__Job *job, const ps_commit *commit, size_t node, uint64_t step,
                            int64_t now_us, int64_t wall_us)
{
    const ps_member *m = &commit->members[node];
    Psgd__V1__Recovery *r = add(job, commit, m->spared.reason, m->spared.message, step, wall_us);

    r->is_survived = true;
    r->from_step = step;
    r->node_ids = ps_xcalloc(1, sizeof *r->node_ids);
    name(r, m, now_us);
}

void ps_recovery_mark_spared(const Psgd__V1__Job *job, ps_member *members, size_t count)
{
    for (size_t i = 0; i < job->n_recoveries; i++) {
        const Psgd__V1__Recovery *r = job->recoveries[i];

        for (size_t k = 0; k < count && r->is_survived && r->attempt == job->attempt; k++) {
            members[k].is_spared |= r->n_node_ids > 0 && strcmp(r->node_ids[0], members[k].id) == 0;
        }
    }
}

/* Returns how many of the seconds are useful in which an attempt trained from began_step to
 * r->step, if the next attempt begins at `from_step`. */
static double useful_of(const Psgd__V1__Recovery *r, uint64_t began_step, uint64_t from_step)
{
    double steps = (double)r->step - (double)began_step;
    double kept = (double)from_step - (double)began_step;

    return steps > 0 && kept > 0 ? r->train_seconds * (kept < steps ? kept / steps : 1) : 0;
}

uint64_t ps_recovery_step(const Psgd__V1__Job *job, uint64_t step)
{
    for (size_t i = 0; i < job->n_recoveries; i++) {
        const Psgd__V1__Recovery *r = job->recoveries[i];

        step = is_open(r) && r->step > step ? r->step : step;
    }
    return step;
}

void ps_recovery_close(Psgd__V1__Job *job, uint64_t from_step, int64_t wall_us)
{
    const Psgd__V1__Recovery *last = last_closed(job);
    Psgd__V1__Progress *counts = ps_job_progress(job);
    uint64_t began_step = last != NULL ? last->from_step : 0, repeated = 0;
    double longest = 0;

    for (size_t i = 0; i < job->n_recoveries; i++) {
        Psgd__V1__Recovery *r = job->recoveries[i];
        double seconds, useful;

        if (!is_open(r)) {
            continue;
        }
        seconds = at_least_0((double)wall_us * 1e-6 - seconds_of(r->notice_time));
        r->seconds = seconds > 1e-6 ? seconds : 1e-6; /* 0 stands for a recovery that is open */
        r->from_step = from_step;
        /* The loss may have come before a heartbeat that would have told the steps up to the
         * checkpoint. */
        r->step = r->step > from_step ? r->step : from_step;
        useful = useful_of(r, began_step, from_step);
        job->useful_seconds += useful;
        counts->seconds_lost += r->train_seconds - useful;
        /* Recoveries that are closed together have the repeated steps and the time without training
         * in common: only the largest of each counts. */
        repeated = r->step > from_step + repeated ? r->step - from_step : repeated;
        longest = r->seconds > longest ? r->seconds : longest;
    }
    counts->steps_repeated += repeated;
    counts->seconds_lost += longest;
}

/* Returns whether the recovery followed the loss of a node or of the coordinator. A node that
 * stalled does not count as lost: it is still there, and would stall again. */
static bool is_of_lost_node(const Psgd__V1__Recovery *r)
{
    return (r->n_node_ids > 0 && strcmp(r->reason, "NODE_STALLED") != 0) ||
           strcmp(r->reason, "COORDINATOR_RESTARTED") == 0;
}

/* Returns whether the recovery is a rollback after a divergence. Rollbacks have a bound of their
 * own, spec.recovery.max_rollbacks. */
static bool is_of_divergence(const Psgd__V1__Recovery *r)
{
    return strcmp(r->reason, "DIVERGED") == 0;
}

bool ps_recovery_fails_alike(const Psgd__V1__Job *job)
{
    uint64_t furthest = 0, first = 0;
    unsigned count = 0;

    for (size_t i = job->n_recoveries; i-- > 0 && count < PS_ALIKE_MAX;) {
        const Psgd__V1__Recovery *r = job->recoveries[i];

        if (r->is_survived) {
            continue; /* it has ended no attempt */
        }
        if (r->is_planned || is_of_lost_node(r) || is_of_divergence(r)) {
            return false;
        }
        furthest = r->step > furthest ? r->step : furthest;
        first = r->step;
        count++;
    }
    return count == PS_ALIKE_MAX && furthest == first;
}

uint64_t ps_recovery_rollback_limit(const Psgd__V1__Job *job)
{
    const Psgd__V1__Recovery *now = NULL, *before = NULL;
    uint64_t back;

    for (size_t i = job->n_recoveries; i-- > 0 && before == NULL;) {
        const Psgd__V1__Recovery *r = job->recoveries[i];

        if (is_of_divergence(r) && is_open(r)) {
            now = r;
        } else if (is_of_divergence(r) && now != NULL) {
            before = r;
        }
    }
    if (before == NULL) {
        return UINT64_MAX;
    }
    back = before->step > before->from_step ? 2 * (before->step - before->from_step) : 0;
    return now->step > back ? now->step - back : 0;
}

double ps_recovery_goodput(const Psgd__V1__Job *job, int64_t wall_us, double *useful_s)
{
    double now_s = (double)wall_us * 1e-6, useful = job->useful_seconds, all_s;

    if (job->start_time == NULL) {
        return 1;
    }
    all_s = at_least_0(now_s - seconds_of(job->start_time));
    if (!ps_recovery_is_open(job)) {
        useful += at_least_0(now_s - trains_since(job));
    }
    if (useful_s != NULL) {
        *useful_s = useful;
    }
    return useful < all_s ? useful / all_s : 1;
}

void ps_recovery_sum_up(Psgd__V1__Job *job, int64_t wall_us)
{
    if (job->start_time != NULL) {
        job->goodput = ps_recovery_goodput(job, wall_us, &job->useful_seconds);
    }
}
