/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator_metrics.c - see coordinator_metrics.h.
 *
 * A coordinator that follows another one has no jobs and no nodes; psgd_leader is 0 then.
 */
#include "services/coordinator/coordinator_metrics.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/job/counts.h"
#include "common/ops/metrics.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/domain/recoveries.h"
#include "services/coordinator/trackers.h"

#include <stdlib.h>

enum { QUEUED = PSGD__V1__JOB_STATE__JOB_STATE_QUEUED };

/* Returns whether the state is a phase of the commit whose durations are a histogram of
 * /metrics. */
static bool is_phase(int state)
{
    return (state >= PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT &&
            state <= PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT) ||
           state == PSGD__V1__JOB_STATE__JOB_STATE_COLLECTING;
}

/* Notes that the job is in `state` from now on. Adds to the histogram how long it was in the state
 * before, if that is a phase and its beginning is known. */
static void count_phase(ps_coordinator *c, ps_live *job, Psgd__V1__JobState state)
{
    int64_t now_us = ps_clock_us();

    if (job->state_us > 0 && is_phase((int)job->state_seen)) {
        ps_histogram_add(&c->phases[job->state_seen], now_us - job->state_us);
    }
    job->state_seen = state;
    job->state_us = now_us;
}

void ps_metrics_job_changed(void *arg, ps_live *job, ps_job_news what)
{
    ps_coordinator *c = arg;
    Psgd__V1__JobState state = job->record.job->state;

    if (what == PS_JOB_STATE) {
        count_phase(c, job, state);
    }
    if (what == PS_JOB_OVER && (int)state < PS_COORDINATOR_STATES) {
        c->ended[state]++;
    }
}

/* --- jobs ------------------------------------------------------------------------- */

static void add_states(const ps_coordinator *c, ps_strbuf *out)
{
    uint64_t now[PS_COORDINATOR_STATES] = {[QUEUED] = c->jobs.queued};

    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        now[job->record.job->state]++;
    }
    ps_metrics_begin(out, "psgd_jobs", "gauge", "jobs that are not over, by state");
    for (int s = QUEUED; s < PS_COORDINATOR_STATES; s++) {
        if (!ps_state_is_final((Psgd__V1__JobState)s)) {
            ps_metrics_add(out, "psgd_jobs",
                           PS_LABELS({"state", ps_state_name((Psgd__V1__JobState)s)}),
                           (double)now[s]);
        }
    }
    ps_metrics_begin(out, "psgd_jobs_ended_total", "counter",
                     "jobs that ended since this process began, by state");
    for (int s = QUEUED; s < PS_COORDINATOR_STATES; s++) {
        if (ps_state_is_final((Psgd__V1__JobState)s)) {
            ps_metrics_add(out, "psgd_jobs_ended_total",
                           PS_LABELS({"state", ps_state_name((Psgd__V1__JobState)s)}),
                           (double)c->ended[s]);
        }
    }
}

static void add_phases(const ps_coordinator *c, ps_strbuf *out)
{
    static const char name[] = "psgd_commit_phase_seconds";

    ps_metrics_begin(out, name, "histogram", "how long jobs were in the phases of the commit");
    for (int s = QUEUED; s < PS_COORDINATOR_STATES; s++) {
        if (is_phase(s)) {
            ps_metrics_histogram(out, name,
                                 PS_LABELS({"phase", ps_state_name((Psgd__V1__JobState)s)}),
                                 &c->phases[s]);
        }
    }
}

/* Adds a gauge for each job with an attempt: when its last checkpoint was stored. Leaves out jobs
 * of which this process has stored none. */
static void add_checkpoints(const ps_coordinator *c, ps_strbuf *out)
{
    static const char name[] = "psgd_job_checkpoint_timestamp_seconds";
    bool is_begun = false;

    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        if (job->checkpoint_wall_us > 0 && !is_begun) {
            ps_metrics_begin(out, name, "gauge",
                             "when the last checkpoint was stored, in seconds since 1970");
            is_begun = true;
        }
        if (job->checkpoint_wall_us > 0) {
            ps_metrics_add(out, name, PS_LABELS({"job_id", job->record.job->id}),
                           (double)job->checkpoint_wall_us / 1e6);
        }
    }
}

/* Adds a gauge for what the programs of jobs have reported last, at most PS_METRICS_MAX samples a
 * job. */
static void add_program_metrics(const ps_coordinator *c, ps_strbuf *out)
{
    static const char name[] = "psgd_job_program_metric";
    bool is_begun = false;

    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        const Psgd__V1__Progress *p = job->record.job->progress;

        for (size_t i = 0; p != NULL && i < p->n_program_metrics; i++) {
            if (!is_begun) {
                ps_metrics_begin(out, name, "gauge",
                                 "what programs have reported last: the mean over ranks");
                is_begun = true;
            }
            ps_metrics_add(
                out, name,
                PS_LABELS({"job_id", job->record.job->id}, {"name", p->program_metrics[i]->key}),
                p->program_metrics[i]->value);
        }
    }
}

/* Adds a metric with a sample for each job that has an attempt. */
static void add_of_jobs(const ps_coordinator *c, ps_strbuf *out, const char *name, const char *type,
                        const char *help, double (*value)(const Psgd__V1__Job *job))
{
    ps_metrics_begin(out, name, type, help);
    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        ps_metrics_add(out, name, PS_LABELS({"job_id", job->record.job->id}),
                       value(job->record.job));
    }
}

static double restarts_of(const Psgd__V1__Job *job)
{
    return job->restarts;
}

static double goodput_of(const Psgd__V1__Job *job)
{
    return ps_recovery_goodput(job, ps_clock_wall_us(), NULL);
}

static double is_running(const Psgd__V1__Job *job)
{
    return job->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
}

static void add_jobs(const ps_coordinator *c, ps_strbuf *out)
{
    size_t n = 0, i = 0;
    ps_counts *counts;
    ps_metrics_of *of;
    ps_label(*labels)[2];

    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        n += job->record.job->progress != NULL;
    }
    counts = ps_xcalloc(n + 1, sizeof *counts);
    of = ps_xcalloc(n + 1, sizeof *of);
    labels = ps_xcalloc(n + 1, sizeof *labels);
    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        if (job->record.job->progress != NULL) {
            counts[i] = ps_counts_get(&job->record.job->progress->base, PS_OF_JOB);
            labels[i][0] = (ps_label){"job_id", job->record.job->id};
            of[i] = (ps_metrics_of){&counts[i], labels[i]};
            i++;
        }
    }
    ps_metrics_counts(out, PS_OF_JOB, of, n);
    free(labels);
    free(of);
    free(counts);
    if (c->jobs.active) {
        add_of_jobs(c, out, "psgd_job_running", "gauge", "1 while the job trains", is_running);
        add_of_jobs(c, out, "psgd_job_restarts_total", "counter",
                    "attempts that began because the one before was lost", restarts_of);
        add_of_jobs(c, out, "psgd_job_goodput_ratio", "gauge",
                    "share of the time since it first trained in which it got on", goodput_of);
    }
    add_program_metrics(c, out);
    add_checkpoints(c, out);
}

/* --- nodes ------------------------------------------------------------------------ */

static const char *const node_states[] = {"lost", "suspect", "full", "busy", "idle"};

/* Returns the index of the node's state: the first of node_states that holds. */
static size_t state_of(const ps_coordinator *c, const ps_node_entry *node, int64_t now_us)
{
    if (node->has_left || !ps_node_is_alive(&c->nodes, node, now_us)) {
        return 0;
    }
    if (node->is_suspect) {
        return 1;
    }
    return ps_node_lacks_room(node, now_us) ? 2 : ps_node_is_idle(node) ? 4 : 3;
}

static void add_nodes(const ps_coordinator *c, int64_t now_us, ps_strbuf *out)
{
    enum { STATES = sizeof node_states / sizeof node_states[0] };
    uint64_t now[3][STATES] = {{0}};

    for (size_t i = 0; i < c->nodes.count; i++) {
        const ps_node_entry *node = c->nodes.entries[i];

        if (node->role < 3) {
            now[node->role][state_of(c, node, now_us)]++;
        }
    }
    ps_metrics_begin(out, "psgd_nodes", "gauge",
                     "nodes that have registered, by state; lost ones for an hour");
    for (int role = 1; role < 3; role++) {
        for (size_t s = 0; s < STATES; s++) {
            ps_metrics_add(out, "psgd_nodes",
                           PS_LABELS({"role", ps_role_name((Psgd__V1__NodeRole)role)},
                                     {"state", node_states[s]}),
                           (double)now[role][s]);
        }
    }
    if (c->nodes.count == 0) {
        return;
    }
    ps_metrics_begin(out, "psgd_node_up", "gauge",
                     "1 while the lease of the node is valid; nodes that have said that they leave "
                     "are not there");
    for (size_t i = 0; i < c->nodes.count; i++) {
        const ps_node_entry *node = c->nodes.entries[i];

        if (!node->has_left) {
            ps_metrics_add(out, "psgd_node_up",
                           PS_LABELS({"node", node->id}, {"role", ps_role_name(node->role)}),
                           ps_node_is_alive(&c->nodes, node, now_us));
        }
    }
}

/* Adds a gauge for each node that has a certificate and has not left: when the certificate ends. */
static void add_certificates(const ps_coordinator *c, ps_strbuf *out)
{
    static const char name[] = "psgd_node_certificate_expiry_timestamp_seconds";
    bool is_begun = false;

    for (size_t i = 0; i < c->nodes.count; i++) {
        const ps_node_entry *node = c->nodes.entries[i];

        if (node->has_left || node->certificate_ends_s <= 0) {
            continue;
        }
        if (!is_begun) {
            ps_metrics_begin(out, name, "gauge",
                             "when the certificate of the node ends, in seconds since 1970");
            is_begun = true;
        }
        ps_metrics_add(out, name, PS_LABELS({"node", node->id}, {"role", ps_role_name(node->role)}),
                       (double)node->certificate_ends_s);
    }
}

/* --- the coordinator -------------------------------------------------------------- */

static void write_metrics(void *state, ps_strbuf *out)
{
    ps_coordinator *c = state;
    bool is_low;
    uint64_t free_bytes = ps_room_free(&c->room, &is_low);

    ps_metrics_one(out, "psgd_leader", "gauge", "1 if this coordinator leads", c->is_open);
    if (free_bytes != UINT64_MAX) {
        ps_metrics_one(out, "psgd_disk_free_bytes", "gauge", "free space on the disk of --data-dir",
                       (double)free_bytes);
    }
    ps_metrics_one(out, "psgd_disk_low", "gauge",
                   "1 while no job is accepted, because of --min-free", is_low);
    ps_metrics_one(out, "psgd_jobs_unsaved", "gauge",
                   "jobs with a change that the registry could not store yet",
                   (double)c->jobs.board.unsaved);
    ps_metrics_one(out, "psgd_tracker_dropped_total", "counter", "values that trackers did not get",
                   (double)ps_trackers_dropped(c->trackers));
    add_states(c, out);
    add_phases(c, out);
    add_jobs(c, out);
    add_nodes(c, ps_coordinator_now_us(c), out);
    add_certificates(c, out);
}

static ps_status is_ready(void *state)
{
    ps_coordinator *c = state;

    if (c->is_stopping) {
        return ps_fail(PS_UNAVAILABLE, "the coordinator is being stopped");
    }
    if (!c->is_open) {
        return ps_fail(PS_UNAVAILABLE, "the coordinator does not lead");
    }
    return ps_room_check(&c->room);
}

ps_ops_source ps_coordinator_ops(ps_coordinator *c)
{
    return (ps_ops_source){.state = c, .metrics = write_metrics, .ready = is_ready};
}
