/* SPDX-License-Identifier: Apache-2.0 */
/* driver_trace.c - a timeline of a job that trains, one at a time: names the steps in the answers
 * to heartbeats, collects the nodes' parts when all ranks are past the last step, and has a task
 * make the file. */
#include "services/coordinator/driver_impl.h"

#include "common/artifact/report.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/trace/trace_file.h"
#include "services/coordinator/io/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMELINES_MAX = 64 }; /* most timelines that a job may have */

static bool is_training(const ps_attempt *a)
{
    return a->commit.stage == PS_STAGE_GOING &&
           a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
}

/* Ends the timeline that is being made, and tells the result to the call that waits for it. */
static void end(ps_attempt *a, const ps_status *result, const char *name)
{
    ps_trace_wait *wait = a->trace.wait;
    uint64_t from_step = a->trace.from_step;

    a->trace.stage = PS_TRACING_NONE;
    a->trace.wait = NULL;
    a->trace.from_step = 0;
    if (wait != NULL) {
        wait->told(wait, result, name, from_step);
    }
}

static void stop_collecting(ps_attempt *a)
{
    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->nodes[i].tracing != NULL) {
            ps_collect_stop(a->nodes[i].tracing);
        }
    }
}

void ps_traces_end(ps_attempt *a, const ps_status *why)
{
    stop_collecting(a);
    if (a->trace.stage != PS_TRACING_NONE) {
        end(a, why, "");
    }
}

/* --- the file ------------------------------------------------------------------------- */

typedef struct merging {
    ps_task task;
    ps_attempt *a;
    /* number of the timeline that the file has; another one may have been asked for meanwhile */
    uint64_t number;
    char folder[PS_FOLDER_MAX], name[PS_NAME_MAX + 1];
    /* (count): names of the parts that are merged; the folder may have others, of timelines that
     * were given up */
    ps_trace_part_name *parts;
    size_t count;
    ps_written file;
    ps_status status;
} merging;

static void merge(ps_task *task)
{
    merging *m = PS_CONTAINER_OF(task, merging, task);
    bool is_written = false;

    m->status =
        ps_archive_merge_trace(m->folder, m->parts, m->count, m->name, &m->file, &is_written);
    if (ps_is_ok(&m->status) && !is_written) {
        m->status = ps_fail(PS_FAILED_PRECONDITION, "no node has recorded anything");
    }
}

static void merged(ps_task *task)
{
    merging *m = PS_CONTAINER_OF(task, merging, task);
    ps_attempt *a = m->a;

    if (a->job != NULL && a->trace.stage == PS_TRACING_MERGED && a->trace.number == m->number) {
        if (ps_is_ok(&m->status)) {
            ps_job_add_artifact(a->job->record.job, m->name,
                                PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, m->file.size,
                                m->file.sha256, "");
            ps_live_save(a->job);
        }
        end(a, &m->status, m->name);
    }
    free(m->parts);
    free(m);
    ps_attempt_settle(a);
}

static void start_merge(ps_attempt *a)
{
    merging *m = ps_xcalloc(1, sizeof *m);
    char suffix[48];

    a->trace.stage = PS_TRACING_MERGED;
    m->task = (ps_task){.run = merge, .done = merged};
    m->a = a;
    m->number = a->trace.number;
    m->parts = ps_xcalloc(a->commit.count, sizeof *m->parts);
    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *p = &a->commit.members[i];

        if (ps_commit_is_there(p)) {
            (p->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER
                 ? ps_artifacts_server_trace_name
                 : ps_artifacts_worker_trace_name)(m->parts[m->count++].text, p->rank);
        }
    }
    m->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    snprintf(m->folder, sizeof m->folder, "%s", a->folder);
    snprintf(suffix, sizeof suffix, "-%" PRIu64 PS_TRACE_SUFFIX, a->trace.from_step);
    ps_artifact_name_of_job(m->name, sizeof m->name, PS_TRACE_PREFIX, a->plan->spec->title, suffix);
    a->pending++;
    ps_tasks_submit(a->c->tasks, NULL, &m->task);
}

/* --- the parts ------------------------------------------------------------------------ */

/* Collects the part of the next node from trace.at on that is there (ps_commit_is_there). If none
 * is left, has a task make the file. */
static void collect_next(ps_attempt *a)
{
    while (a->trace.at < a->commit.count && !ps_commit_is_there(&a->commit.members[a->trace.at])) {
        a->trace.at++;
    }
    if (a->trace.at < a->commit.count) {
        ps_collect_trace(&a->nodes[a->trace.at], a->trace.from_step, a->folder);
    } else {
        start_merge(a);
    }
}

void ps_trace_collected(ps_attempt_node *node, const ps_status *result)
{
    ps_attempt *a = node->a;
    ps_status why = ps_wrap(*result, "%s", ps_attempt_node_member(node)->id);

    if (!ps_is_ok(result)) {
        end(a, &why, "");
        return;
    }
    a->trace.at++;
    collect_next(a);
}

void ps_traces_over(ps_attempt *a)
{
    bool goes_on = a->commit.outcome == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    ps_status why = ps_fail(PS_FAILED_PRECONDITION, "job %s %s", a->job_id,
                            goes_on ? "goes on with its next attempt: ask again when it trains"
                                    : "has ended before its nodes could give their parts; set "
                                      "`trace` in the job");

    ps_traces_end(a, &why);
}

/* Chooses the steps of the timeline, so far ahead that nodes should hear of them in time. Fails if
 * the job ends before the last of them. */
static ps_status name_steps(ps_attempt *a)
{
    uint64_t first = ps_attempt_clock_ahead(a), last = first + a->trace.steps;

    if (last >= a->plan->total_clocks) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s ends after %" PRIu64 " steps: %" PRIu32 " from step %" PRIu64
                       " on are too many",
                       a->job_id, a->plan->total_clocks, a->trace.steps, first + 1);
    }
    a->trace.stage = PS_TRACING_NAMED;
    a->trace.from_step = first + 1;
    for (size_t i = 0; i < a->commit.count; i++) {
        a->nodes[i].is_told_of_trace = false;
    }
    ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                "timeline of %" PRIu32 " steps from step %" PRIu64, a->trace.steps,
                a->trace.from_step);
    return ps_ok();
}

/* Returns whether the job has trained for long enough to tell how fast it is: a.rate has two
 * points. */
static bool is_pace_known(const ps_attempt *a)
{
    return a->rate[0].us != 0 && a->rate[1].us > a->rate[0].us;
}

/* Returns whether steps are named and all ranks have reported that they have done them. */
static bool are_over(const ps_attempt *a)
{
    return a->trace.stage == PS_TRACING_NAMED &&
           ps_attempt_clock(a) + 1 >= a->trace.from_step + a->trace.steps;
}

static bool are_all_told(const ps_attempt *a)
{
    bool are = true;

    for (size_t i = 0; i < a->commit.count && are; i++) {
        are = a->nodes[i].is_told_of_trace || !ps_commit_is_there(&a->commit.members[i]);
    }
    return are;
}

void ps_traces_beat(ps_attempt *a, size_t node, Psgd__V1__HeartbeatResponse *answer)
{
    ps_status unwanted = ps_fail(PS_CANCELLED, "nobody waits for it any more");

    if (a->trace.stage == PS_TRACING_NONE) {
        return;
    }
    if (!is_training(a)) {
        ps_traces_over(a);
        return;
    }
    if (!a->trace.wait->is_wanted(a->trace.wait)) {
        ps_traces_end(a, &unwanted);
        return;
    }
    if (are_over(a) && are_all_told(a)) {
        a->trace.stage = PS_TRACING_COLLECTED;
        a->trace.at = 0;
        collect_next(a);
    } else if (are_over(a) || (a->trace.stage == PS_TRACING_ASKED && is_pace_known(a))) {
        /* chooses later steps if these are over and some node had not heard of them */
        ps_status st = name_steps(a);

        if (!ps_is_ok(&st)) {
            ps_traces_end(a, &st);
            return;
        }
    }
    if (a->trace.stage == PS_TRACING_ASKED) {
        return;
    }
    a->nodes[node].is_told_of_trace = true;
    answer->trace_from = a->trace.from_step;
    answer->trace_steps = a->trace.steps;
}

/* --- asking --------------------------------------------------------------------------- */

static size_t timelines_of(const Psgd__V1__Job *job)
{
    size_t count = 0;

    for (size_t i = 0; i < job->n_artifacts; i++) {
        count += strncmp(job->artifacts[i]->name, PS_TRACE_PREFIX "-", sizeof PS_TRACE_PREFIX) == 0;
    }
    return count;
}

/* Returns OK, or why no timeline can be recorded now. */
static ps_status check(const ps_attempt *a)
{
    if (!is_training(a)) {
        return ps_fail(PS_FAILED_PRECONDITION, "job %s does not train", a->job_id);
    }
    if (a->plan->spec->trace != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s has `trace`: its timeline is with its files when it is over",
                       a->job_id);
    }
    if (a->trace.stage != PS_TRACING_NONE) {
        return ps_fail(PS_FAILED_PRECONDITION, "another timeline of job %s is being made",
                       a->job_id);
    }
    if (timelines_of(a->job->record.job) >= TIMELINES_MAX) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "job %s has %d timelines; no more are made",
                       a->job_id, TIMELINES_MAX);
    }
    return ps_ok();
}

void ps_attempt_trace(ps_attempt *a, uint32_t steps, ps_trace_wait *wait)
{
    ps_status st = check(a);

    if (!ps_is_ok(&st)) {
        wait->told(wait, &st, "", 0);
        return;
    }
    a->trace.number++;
    a->trace.wait = wait;
    a->trace.steps = steps;
    a->trace.stage = PS_TRACING_ASKED;
    st = is_pace_known(a) ? name_steps(a) : ps_ok();
    if (!ps_is_ok(&st)) {
        end(a, &st, "");
    }
}
