/* SPDX-License-Identifier: Apache-2.0 */
/* service_explain.c - ExplainJob.
 *
 * Of a job that trains, the reports of its ranks are noted twice, some seconds apart. If the
 * exchange bounds the job, and the client allows it, ten steps are recorded (driver_trace.c) and a
 * task reads the timeline. Of a job that is over, the task reads the summary, and the newest
 * timeline if there is one and the exchange bounded the job.
 */
#include "common/base/container_of.h"
#include "common/base/linked.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/explain/explain_answer.h"
#include "common/explain/explain_ranks.h"
#include "common/trace/trace_file.h"
#include "common/update/update.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/explain_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FOR_MS_DEFAULT = 5000,
    FOR_MS_LEAST = 500,
    FOR_MS_MOST = 600000,
    STEPS = 10,
    EXPLAINED_MAX = 32,           /* most jobs that train and are measured at the same time */
    TIMELINE_BYTES_MAX = 16 << 20 /* most bytes of the (packed) timeline of a job that is over */
};

struct ps_explaining {
    ps_held held;
    ps_principal caller;
    ps_explaining *prev, *next; /* neighbours in coordinator.explained, during the measurement */
    ps_timer timer;             /* ends the measurement */
    int64_t for_ms;             /* length of the measurement; 0: none, the job is over */
    bool records;
    uint32_t attempt;
    ps_trace_wait wait;

    /* What is found out. While the task runs, only the task uses the members below. */
    ps_task task;
    ps_status status;
    ps_record record; /* record of a job that is over */
    /* a copy of the specification of a job that trains; NULL: the job is over */
    Psgd__V1__JobSpec *spec;
    char folder[PS_FOLDER_MAX], timeline[PS_NAME_MAX + 1];
    size_t n;
    /* (PS_EXPLAIN_RANKS_MAX), of which n are used; `before`: at the beginning of the measurement */
    ps_explain_rank *ranks, *before;
    ps_explanation found;
    bool has_steps;
    ps_explain_steps steps;
    ps_explain_times *times; /* (PS_EXPLAIN_RANKS_MAX), of which n are used */
    size_t foretold_count;
    ps_foretold foretold[PS_FORETOLD_MAX];
    char unknown[PS_STATUS_TEXT_BYTES];
};

static ps_explaining *create(ps_coordinator *c, ps_call *call, const char *job_id)
{
    ps_explaining *x = ps_xcalloc(1, sizeof *x);

    x->ranks = ps_xcalloc(PS_EXPLAIN_RANKS_MAX, sizeof *x->ranks);
    x->before = ps_xcalloc(PS_EXPLAIN_RANKS_MAX, sizeof *x->before);
    x->times = ps_xcalloc(PS_EXPLAIN_RANKS_MAX, sizeof *x->times);
    x->caller = *ps_call_caller(call);
    x->status = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    ps_hold(&x->held, c, call, job_id);
    return x;
}

static void destroy(ps_explaining *x)
{
    if (x->held.share != NULL) {
        ps_shares_leave(&x->held.c->reading, x->held.share);
    }
    ps_record_fini(&x->record);
    psgd__v1__job_spec__free_unpacked(x->spec, NULL);
    free(x->ranks);
    free(x->before);
    free(x->times);
    free(x);
}

/* Answers the call, or refuses it with x->status, if the client still waits. Frees x. */
static void finish(ps_explaining *x)
{
    ps_explained all = {.ranks = x->ranks,
                        .n = x->n,
                        .found = x->found,
                        .live_s = (double)x->for_ms * 1e-3,
                        .steps = x->has_steps ? &x->steps : NULL,
                        .timeline = x->timeline,
                        .times = x->has_steps ? x->times : NULL,
                        .foretold = x->foretold,
                        .foretold_count = x->foretold_count,
                        .unknown = x->unknown};
    ps_code code = x->status.code;

    if (x->held.call != NULL && ps_is_ok(&x->status)) {
        Psgd__V1__ExplainJobResponse *reply = ps_explain_answer(&all);

        ps_call_reply(x->held.call, &reply->base);
        psgd__v1__explain_job_response__free_unpacked(reply, NULL);
    } else if (x->held.call != NULL && code == PS_PERMISSION_DENIED) {
        ps_refuse_status(x->held.call, &x->status, x->held.job_id);
    } else if (x->held.call != NULL) {
        ps_refuse(x->held.call, code, code == PS_NOT_FOUND ? "JOB_NOT_FOUND" : "NOT_EXPLAINED",
                  x->held.job_id, "%s", x->status.text);
    }
    destroy(x);
}

/* --- the task ------------------------------------------------------------------------- */

static bool takes_rounds(const Psgd__V1__JobSpec *spec)
{
    const ps_update *update = spec->update != NULL && spec->update->name[0] != '\0'
                                  ? ps_update_find(spec->update->name)
                                  : NULL;

    return update != NULL && update->local != NULL;
}

/* Finds by the timeline how long each part of the exchange takes, and foretells the pace with other
 * settings. Fails if the timeline cannot be read, or if the clocks of nodes may differ too much. */
static ps_status take_apart(ps_explaining *x, const Psgd__V1__JobSpec *spec)
{
    ps_status st = ps_explain_read_timeline(x->folder, x->timeline, &x->steps, x->times, x->n);

    if (ps_is_ok(&st) && ps_explain_is_doubtful(&x->steps)) {
        st = ps_fail(PS_FAILED_PRECONDITION,
                     "its largest part takes %.3g ms of a step, and the clocks of the nodes may "
                     "differ by %.3g ms",
                     1e3 * x->steps.shares[x->steps.way] * x->steps.step_s, 1e3 * x->steps.error_s);
    }
    x->has_steps = ps_is_ok(&st);
    if (x->has_steps) {
        x->foretold_count = ps_foretell(&x->held.c->codec_costs, spec, takes_rounds(spec), x->ranks,
                                        x->n, x->found.steps_per_s, &x->steps, x->foretold);
    }
    return st;
}

/* Sets x->timeline to the last timeline in the files of a job that is over. Leaves out timelines of
 * more than TIMELINE_BYTES_MAX. */
static void find_timeline(ps_explaining *x)
{
    const Psgd__V1__Job *job = x->record.job;

    for (size_t i = 0; i < job->n_artifacts; i++) {
        const Psgd__V1__Artifact *file = job->artifacts[i];

        if (strncmp(file->name, PS_TRACE_PREFIX "-", sizeof PS_TRACE_PREFIX) == 0 &&
            file->size <= TIMELINE_BYTES_MAX) {
            snprintf(x->timeline, sizeof x->timeline, "%s", file->name);
        }
    }
}

static ps_status read_job(ps_explaining *x)
{
    ps_status st = ps_registry_load(x->held.c->reader, x->held.job_id, &x->record);

    if (ps_is_ok(&st)) {
        st = ps_access_check(&x->caller, x->record.job, PS_ACCESS_SEE);
    }
    if (ps_is_ok(&st)) {
        st = ps_artifacts_folder(x->folder, x->held.c->conf.data_dir, x->record.job->id);
    }
    if (ps_is_ok(&st)) {
        st = ps_explain_ranks_read_folder(x->folder, x->ranks, &x->n);
        if (!ps_is_ok(&st)) { /* the job exists, so the failure must not be NOT_FOUND */
            st = ps_fail(PS_FAILED_PRECONDITION, "job %s has no times to explain: %s",
                         x->record.job->id, st.text);
        }
    }
    return st;
}

static void work(ps_task *task)
{
    ps_explaining *x = PS_CONTAINER_OF(task, ps_explaining, task);
    bool is_over = x->for_ms == 0;
    ps_status apart;

    x->status = is_over ? read_job(x) : ps_ok();
    if (!ps_is_ok(&x->status)) {
        return;
    }
    if (is_over) {
        x->found = ps_explain(x->ranks, x->n);
        find_timeline(x);
    }
    if (x->timeline[0] == '\0' || x->found.cause != PS_EXPLAIN_EXCHANGE) {
        return;
    }
    apart = take_apart(x, is_over ? x->record.job->spec : x->spec);
    if (!ps_is_ok(&apart)) {
        snprintf(x->unknown, sizeof x->unknown, "%s", apart.text);
    }
}

static void worked(ps_task *task)
{
    finish(PS_CONTAINER_OF(task, ps_explaining, task));
}

/* Starts the task that reads the job's timeline, and of a job that is over its summary. Such tasks
 * run one after the other, as a timeline takes much memory. */
static void start_work(ps_explaining *x)
{
    x->task = (ps_task){.run = work, .done = worked};
    ps_tasks_submit(x->held.c->tasks, &x->held.c->explaining, &x->task);
}

/* --- a job that trains ---------------------------------------------------------------- */

static void end_with(ps_explaining *x, ps_status status)
{
    x->status = status;
    finish(x);
}

static bool is_training(const ps_live *live)
{
    return live != NULL && live->attempt != NULL &&
           live->record.job->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
}

static const char *node_of(const ps_attempt *a, uint32_t rank)
{
    for (size_t i = 0; i < ps_attempt_count(a); i++) {
        const ps_member *m = ps_attempt_member(a, i);

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER && rank >= m->rank &&
            rank - m->rank < m->rank_count) {
            return m->id;
        }
    }
    return "";
}

/* Writes the last report of each rank that has reported to `ranks`. Returns their number. */
static size_t note(const ps_live *live, ps_explain_rank *ranks)
{
    Psgd__V1__WorkerProgress *list = ps_xcalloc(PS_LOST_MAX, sizeof *list);
    size_t n = ps_attempt_workers(live->attempt, list);

    static_assert((int)PS_LOST_MAX <= (int)PS_EXPLAIN_RANKS_MAX, "there is room for all ranks");
    for (size_t i = 0; i < n; i++) {
        ranks[i] = ps_explain_rank_of(&list[i], node_of(live->attempt, list[i].rank));
    }
    free(list);
    return n;
}

static bool is_wanted(const ps_trace_wait *wait)
{
    return PS_CONTAINER_OF(wait, const ps_explaining, wait)->held.call != NULL;
}

static void recorded(ps_trace_wait *wait, const ps_status *result, const char *name,
                     uint64_t from_step)
{
    ps_explaining *x = PS_CONTAINER_OF(wait, ps_explaining, wait);

    (void)from_step;
    if (x->held.call == NULL) {
        destroy(x);
        return;
    }
    if (ps_is_ok(result)) {
        snprintf(x->timeline, sizeof x->timeline, "%s", name);
    } else {
        snprintf(x->unknown, sizeof x->unknown, "%s", result->text);
    }
    start_work(x);
}

/* Ends the measurement: compares the reports of ranks with those of its beginning. If the exchange
 * bounds the job and the client allows it, records a timeline; else answers. */
static void measured(ps_event *self, bool ok)
{
    ps_explaining *x = PS_CONTAINER_OF(self, ps_explaining, timer.event);
    ps_coordinator *c = x->held.c;
    ps_live *live = ps_jobs_find(&c->jobs, x->held.job_id);
    bool is_same = is_training(live) && live->record.job->attempt == x->attempt;

    PS_UNLINK(c->explained, x);
    if (!ok || x->held.call == NULL) {
        destroy(x);
        return;
    }
    if (!is_same || note(live, x->ranks) != x->n) {
        end_with(x, ps_fail(PS_FAILED_PRECONDITION,
                            "job %s has ended or got other nodes meanwhile; ask again",
                            x->held.job_id));
        return;
    }
    x->status = ps_explain_ranks_since(x->ranks, x->before, x->n);
    if (!ps_is_ok(&x->status)) {
        finish(x);
        return;
    }
    x->found = ps_explain(x->ranks, x->n);
    if (x->found.cause != PS_EXPLAIN_EXCHANGE || !x->records) {
        finish(x);
        return;
    }
    x->spec = (Psgd__V1__JobSpec *)ps_message_copy(&live->record.job->spec->base);
    x->wait = (ps_trace_wait){.is_wanted = is_wanted, .told = recorded};
    ps_attempt_trace(live->attempt, STEPS, &x->wait);
}

/* Returns OK, or why the job cannot be measured now. */
static ps_status check(const ps_coordinator *c, const ps_live *live)
{
    size_t count = 0;

    if (!is_training(live)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s is %s and has no reports: only a job that trains or is over can be "
                       "explained",
                       live->record.job->id, ps_state_name(live->record.job->state));
    }
    for (const ps_explaining *x = c->explained; x != NULL; x = x->next) {
        if (strcmp(x->held.job_id, live->record.job->id) == 0) {
            return ps_fail(PS_FAILED_PRECONDITION, "another explanation of job %s is being made",
                           live->record.job->id);
        }
        count++;
    }
    return count < EXPLAINED_MAX
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED,
                         "%d jobs are being explained, as many as are allowed; ask again later",
                         EXPLAINED_MAX);
}

static void begin(ps_coordinator *c, const ps_live *live, const Psgd__V1__ExplainJobRequest *q,
                  ps_call *call)
{
    const Psgd__V1__Job *job = live->record.job;
    ps_status st = check(c, live);
    ps_explaining *x;

    if (!ps_is_ok(&st)) {
        ps_refuse(call, st.code, "NOT_EXPLAINED", job->id, "%s", st.text);
        return;
    }
    x = create(c, call, job->id);
    x->for_ms = q->for_ms > 0 ? q->for_ms : FOR_MS_DEFAULT;
    x->records = q->record;
    x->attempt = job->attempt;
    x->n = note(live, x->before);
    st = ps_artifacts_folder(x->folder, c->conf.data_dir, job->id);
    if (ps_is_ok(&st) && x->n == 0) {
        st = ps_fail(PS_FAILED_PRECONDITION, "job %s: no worker has reported yet; ask again",
                     job->id);
    }
    if (!ps_is_ok(&st)) {
        end_with(x, st);
        return;
    }
    PS_LINK_FIRST(c->explained, x);
    x->timer.event.fire = measured;
    ps_loop_after(c->loop, &x->timer, x->for_ms * 1000);
}

/* --- the call ------------------------------------------------------------------------- */

void ps_explaining_end(ps_coordinator *c)
{
    while (c->explained != NULL) {
        ps_explaining *x = c->explained;

        PS_UNLINK(c->explained, x);
        ps_loop_cancel(c->loop, &x->timer);
        end_with(x, ps_fail(PS_UNAVAILABLE, "the coordinator is stopping"));
    }
}

/* Explains a job that is over, by a task that reads its files. */
static void look_back(ps_coordinator *c, const char *job_id, ps_call *call)
{
    ps_held share = {0};
    ps_explaining *x;

    if (!ps_may_wait(c->tasks, &c->reading, "files of jobs", call, &share)) {
        return;
    }
    x = create(c, call, job_id);
    x->held.share = share.share;
    start_work(x);
}

void ps_serve_explain_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                          ps_call *call)
{
    const Psgd__V1__ExplainJobRequest *q = (const void *)request;
    ps_coordinator *c = service;
    const ps_live *live = ps_jobs_find(&c->jobs, q->job_id);

    (void)payload;
    ps_call_about(call, q->job_id);
    if (q->for_ms != 0 && (q->for_ms < FOR_MS_LEAST || q->for_ms > FOR_MS_MOST)) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_FOR_MS", q->job_id,
                  "for_ms: is %u; %d to %d are allowed, and 0 for %d", q->for_ms, FOR_MS_LEAST,
                  FOR_MS_MOST, FOR_MS_DEFAULT);
    } else if (live == NULL || live->is_over) {
        look_back(c, q->job_id, call);
    } else if (ps_may_access(call, live->record.job,
                             q->record ? PS_ACCESS_CHANGE : PS_ACCESS_SEE)) {
        begin(c, live, q, call);
    }
}
