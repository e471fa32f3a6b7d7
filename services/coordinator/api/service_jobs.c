/* SPDX-License-Identifier: Apache-2.0 */
/* service_jobs.c - SubmitJob, GetJob, CancelJob, DeleteJob. */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/look.h"
#include "common/job/plan.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/checkpoint_place.h"
#include "services/coordinator/io/init_from.h"
#include "services/coordinator/job_queue.h"
#include "services/coordinator/submission.h"
#include "services/coordinator/trackers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- one job ------------------------------------------------------------------ */

/* Answers the call with the job. */
typedef void answer_fn(ps_call *call, Psgd__V1__Job *job);

/* A call that waits until a job that is over is read from the registry. */
typedef struct lookup {
    ps_task task;
    ps_held held;
    answer_fn *answer;
    ps_access what;
    ps_record record;
    ps_status status;
} lookup;

static void load(ps_task *task)
{
    lookup *l = PS_CONTAINER_OF(task, lookup, task);

    l->status = ps_registry_load(l->held.c->reader, l->held.job_id, &l->record);
}

static void loaded(ps_task *task)
{
    lookup *l = PS_CONTAINER_OF(task, lookup, task);

    if (l->held.call && !ps_is_ok(&l->status)) {
        ps_refuse_status(l->held.call, &l->status, l->held.job_id);
    } else if (l->held.call && ps_may_access(l->held.call, l->record.job, l->what)) {
        l->answer(l->held.call, l->record.job);
    }
    ps_record_fini(&l->record);
    ps_shares_leave(&l->held.c->reading, l->held.share);
    free(l);
}

/* Calls `answer` with the job: as it is now if it is not over, else as the registry has it. Refuses
 * the call if the caller may not do `what`. */
static void answer_job(ps_coordinator *c, ps_call *call, const char *job_id, ps_access what,
                       answer_fn *answer)
{
    ps_live *live = ps_jobs_find(&c->jobs, job_id);
    lookup *l;

    if (live) {
        if (ps_may_access(call, live->record.job, what)) {
            answer(call, live->record.job);
        }
        return;
    }
    l = ps_xcalloc(1, sizeof *l);
    if (!ps_may_wait(c->reads, &c->reading, "registry", call, &l->held)) {
        free(l);
        return;
    }
    l->task.run = load;
    l->task.done = loaded;
    l->answer = answer;
    l->what = what;
    l->status = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    ps_hold_for_read(&l->held, c, call, job_id, &l->task);
}

static void answer_get(ps_call *call, Psgd__V1__Job *job)
{
    Psgd__V1__GetJobResponse reply = PSGD__V1__GET_JOB_RESPONSE__INIT;

    reply.job = job;
    ps_call_reply(call, &reply.base);
}

static void answer_with_workers(const ps_live *live, ps_call *call)
{
    Psgd__V1__GetJobResponse reply = PSGD__V1__GET_JOB_RESPONSE__INIT;
    Psgd__V1__WorkerProgress *list = ps_xcalloc(PS_LOST_MAX, sizeof *list);
    Psgd__V1__WorkerProgress **workers =
        ps_xcalloc(PS_LOST_MAX, sizeof(Psgd__V1__WorkerProgress *));

    reply.job = live->record.job;
    reply.n_workers = ps_attempt_workers(live->attempt, list);
    reply.workers = workers;
    for (size_t i = 0; i < reply.n_workers; i++) {
        workers[i] = &list[i];
    }
    ps_call_reply(call, &reply.base);
    free(list);
    free(workers);
}

void ps_serve_get_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                      ps_call *call)
{
    const Psgd__V1__GetJobRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_live *live = q->workers ? ps_jobs_find(&c->jobs, q->job_id) : NULL;

    (void)payload;
    if (!live || !live->attempt) {
        answer_job(c, call, q->job_id, PS_ACCESS_SEE, answer_get);
    } else if (ps_may_access(call, live->record.job, PS_ACCESS_SEE)) {
        answer_with_workers(live, call);
    }
}

/* --- SubmitJob ---------------------------------------------------------------- */

static void note_violation(void *arg, const char *field, const char *text)
{
    ps_error_violate(arg, field, "%s", text);
}

static bool is_request_id(const char *id)
{
    size_t n = strlen(id);

    for (size_t i = 0; i < n; i++) {
        if (id[i] < 0x20 || id[i] > 0x7e) {
            return false;
        }
    }
    return n <= PS_REQUEST_ID_MAX;
}

/* Checks the files that the job starts from. Reports a failure as a violation of spec.init_from or
 * spec.init_tables. */
static ps_status check_init(const ps_coordinator *c, const ps_principal *owner, const ps_plan *plan,
                            ps_error *error)
{
    const char *field = "spec.init_from";
    ps_init_where where = ps_coordinator_init_where(c);
    ps_status st;

    where.caller = owner;
    st = ps_init_check(&where, plan);

    if (ps_is_ok(&st)) {
        field = plan->spec->n_init_tables > 0 ? "spec.init_tables" : field;
        st = ps_init_check_tables(&where, plan);
    }
    if (ps_is_ok(&st)) {
        return st;
    }
    ps_error_violate(error, field, "%s", st.text);
    return ps_fail(PS_INVALID_ARGUMENT, "%s: %s", field, st.text);
}

static void refuse_for_room(ps_coordinator *c, ps_call *call, const ps_status *st)
{
    ps_error error;

    ps_error_init(&error, *st, "DISK_LOW");
    ps_error_meta(&error, "free_bytes", "%" PRIu64, ps_room_free(&c->room, NULL));
    ps_error_meta(&error, "needed_bytes", "%" PRIu64, c->room.min_free_bytes);
    ps_call_fail_error(call, &error);
}

/* Refuses a job with no_queue that cannot start now. `lacks` says what it would have to wait for.
 */
static void refuse_to_wait(ps_call *call, const char *lacks)
{
    ps_error error;

    ps_error_init(&error, ps_fail(PS_RESOURCE_EXHAUSTED, "would have to wait: %s", lacks),
                  "WOULD_WAIT");
    ps_error_violate(&error, "no_queue", "%s; submit it later, or let it wait in the queue", lacks);
    ps_call_fail_error(call, &error);
}

/* A submitted job while it is checked and stored. */
typedef struct submission {
    ps_task task;
    ps_held held;
    char *request_id;
    /* spec: as submitted. full: also with facts that were read from the data set; NULL: the spec
     * needs none. */
    Psgd__V1__JobSpec *spec, *full;
    ps_plan *plan;
    ps_principal owner;
    /* bytes of the files of the owner's jobs that are over; 0 if the owner has no quota for them */
    uint64_t stored_bytes;
    ps_error quota; /* the quota of the owner that the job would exceed; status OK: none */
    bool no_queue;  /* the job may not wait: it fails if it cannot start at once */
    /* of a job that may not wait: what it would have to wait for; else "" */
    char lacks[PS_COMMIT_MESSAGE_MAX];
    ps_error error; /* why the check has failed; status OK: it has not */
} submission;

static void answer_submit(ps_call *call, Psgd__V1__Job *job)
{
    Psgd__V1__SubmitJobResponse reply = PSGD__V1__SUBMIT_JOB_RESPONSE__INIT;

    reply.job = job;
    ps_call_about(call, job->id);
    ps_call_reply(call, &reply.base);
}

static void free_submission(submission *s)
{
    ps_plan_destroy(s->plan);
    if (s->full) {
        psgd__v1__job_spec__free_unpacked(s->full, NULL);
    }
    psgd__v1__job_spec__free_unpacked(s->spec, NULL);
    free(s->request_id);
    free(s);
}

/* Reads facts from the data set if the spec leaves them open: sets s->full. Writes a failure to
 * s->error. */
static ps_status look(submission *s)
{
    ps_status st = ps_look_is_needed(s->spec)
                       ? ps_look(s->spec, s->held.c->conf.data_path, &s->full)
                       : ps_ok();

    if (!ps_is_ok(&st)) {
        ps_error_init(&s->error, st, "BAD_DATA");
        ps_error_violate(&s->error, "spec.data", "%s", st.text);
    }
    return st;
}

/* Returns the bytes of the coordinator's memory that a package of the plan takes. */
static uint64_t memory_of(const ps_plan *plan)
{
    return (uint64_t)plan->layout.param_count * sizeof(float);
}

/* Refuses a model that is larger than --max-memory, because its job would wait for ever. If
 * conf.max_memory_bytes is 0, allows any. */
static ps_status check_memory(submission *s)
{
    uint64_t bytes = memory_of(s->plan), max = s->held.c->conf.max_memory_bytes;

    if (max == 0 || bytes <= max) {
        return ps_ok();
    }
    ps_error_violate(&s->error, "spec.model", "%zu parameters", s->plan->layout.param_count);
    return ps_fail(PS_INVALID_ARGUMENT,
                   "spec.model: %zu parameters take %llu bytes of the coordinator's memory, which "
                   "has %llu for them (--max-memory)",
                   s->plan->layout.param_count, (unsigned long long)bytes, (unsigned long long)max);
}

/* Refuses time-outs shorter than PS_LEASE_BEATS heartbeats: a late heartbeat would break them. */
static ps_status check_timeouts(submission *s)
{
    const Psgd__V1__TimeoutSpec *t = s->plan->spec->timeouts;
    const struct {
        const char *field;
        uint32_t ms;
    } times[] = {{"spec.timeouts.lease_ms", t->lease_ms}, {"spec.timeouts.step_ms", t->step_ms}};
    int64_t beat_us = s->held.c->conf.heartbeat_us;
    ps_status st = ps_ok();

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i].ms * INT64_C(1000) < PS_LEASE_BEATS * beat_us) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "%s: is %" PRIu32 "; at least %lld is allowed, %d heartbeats of this "
                         "coordinator (--heartbeat %lldms)",
                         times[i].field, times[i].ms,
                         (long long)((PS_LEASE_BEATS * beat_us + 999) / 1000), PS_LEASE_BEATS,
                         (long long)(beat_us / 1000));
            ps_error_violate(&s->error, times[i].field, "is %" PRIu32 "; at least %lld is allowed",
                             times[i].ms, (long long)((PS_LEASE_BEATS * beat_us + 999) / 1000));
        }
    }
    return st;
}

static bool add_files(void *arg, ps_record *record)
{
    submission *s = arg;
    char owner[PS_PRINCIPAL_TEXT_BYTES];

    if (strcmp(record->job->owner, ps_access_owner(&s->owner, owner)) == 0) {
        for (size_t i = 0; i < record->job->n_artifacts; i++) {
            s->stored_bytes += record->job->artifacts[i]->size;
        }
    }
    ps_record_fini(record);
    return true;
}

/* Sums up the bytes of files of the owner's jobs that are over, if the owner has a quota for
 * them. */
static ps_status count_files(submission *s)
{
    const uint32_t over = 1u << PSGD__V1__JOB_STATE__JOB_STATE_DONE |
                          1u << PSGD__V1__JOB_STATE__JOB_STATE_FAILED |
                          1u << PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED;
    ps_amounts most;

    ps_quotas_refresh(s->held.c->quotas);
    ps_quotas_of(s->held.c->quotas, &s->owner, &most);
    return most.of[PS_QUOTA_ARTIFACT_BYTES] == UINT64_MAX
               ? ps_ok()
               : ps_registry_each(s->held.c->reader, 0, over, add_files, s);
}

/* Checks that the submitter may bring code, if the job has some, and completes the code's entries
 * in `spec`. */
static ps_status take_code(submission *s, Psgd__V1__JobSpec *spec)
{
    ps_status st = ps_ok();

    if (spec->n_code > 0) {
        st = ps_access_check_code(&s->owner, s->held.c->conf.code);
    }
    if (!ps_is_ok(&st)) {
        ps_error_violate(&s->error, "spec.code", "%s", st.text);
        return st;
    }
    return ps_code_complete(spec, note_violation, &s->error);
}

static void check(ps_task *task)
{
    submission *s = PS_CONTAINER_OF(task, submission, task);
    ps_status st = look(s);

    ps_room_look(&s->held.c->room);
    if (!ps_is_ok(&st)) {
        return;
    }
    ps_error_init(&s->error, ps_fail(PS_INVALID_ARGUMENT, "wrong fields"), "BAD_JOB_SPEC");
    st = take_code(s, s->full ? s->full : s->spec);
    if (!ps_is_ok(&st)) {
        s->error.status = st;
        return;
    }
    st = ps_plan_create(s->full ? s->full : s->spec, note_violation, &s->error, &s->plan);
    if (ps_is_ok(&st)) {
        st = check_init(s->held.c, &s->owner, s->plan, &s->error);
    }
    if (ps_is_ok(&st)) {
        st = ps_trackers_check(s->held.c->trackers, s->plan->spec, &s->error);
    }
    if (!is_request_id(s->request_id)) {
        ps_error_violate(&s->error, "request_id", "at most %d printable ASCII characters",
                         PS_REQUEST_ID_MAX);
        if (ps_is_ok(&st)) {
            st = ps_fail(PS_INVALID_ARGUMENT, "request_id: at most %d printable ASCII characters",
                         PS_REQUEST_ID_MAX);
        }
    }
    st = ps_is_ok(&st) ? check_memory(s) : st;
    st = ps_is_ok(&st) ? check_timeouts(s) : st;
    s->error.status = ps_is_ok(&st) ? count_files(s) : st;
}

static void submitted(void *arg, const ps_status *result, const char *job_id)
{
    submission *s = arg;
    ps_call *call = s->held.call;
    bool is_low = false;

    ps_room_free(&s->held.c->room, &is_low);
    if (call && ps_is_ok(result)) {
        answer_job(s->held.c, call, job_id, PS_ACCESS_SEE, answer_submit);
    } else if (call && result->code == PS_RESOURCE_EXHAUSTED && !ps_is_ok(&s->quota.status)) {
        ps_call_fail_error(call, &s->quota);
    } else if (call && result->code == PS_RESOURCE_EXHAUSTED && is_low) {
        refuse_for_room(s->held.c, call, result);
    } else if (call && result->code == PS_RESOURCE_EXHAUSTED && s->lacks[0] != '\0') {
        refuse_to_wait(call, s->lacks);
    } else if (call && result->code == PS_ALREADY_EXISTS) {
        ps_refuse(call, result->code, "REQUEST_ID_USED", job_id, "%s", result->text);
    } else if (call) {
        ps_refuse_status(call, result, job_id);
    }
    free_submission(s);
}

static bool has_bounds(const ps_amounts *most)
{
    for (int i = 0; i < PS_QUOTA_COUNT; i++) {
        if (most->of[i] != UINT64_MAX) {
            return true;
        }
    }
    return false;
}

/* Checks the job against the owner's quotas. Writes a failure to s->quota. */
static void check_quota(submission *s)
{
    ps_coordinator *c = s->held.c;
    const ps_amounts wanted = {.of = {[PS_QUOTA_JOBS] = 1,
                                      [PS_QUOTA_WORKERS] = s->plan->spec->workers,
                                      [PS_QUOTA_PARAMETERS] = s->plan->layout.param_count,
                                      /* the job's files are not known yet: it needs some room */
                                      [PS_QUOTA_ARTIFACT_BYTES] = 1}};
    ps_amounts most, used = {.of = {[PS_QUOTA_ARTIFACT_BYTES] = s->stored_bytes}};
    ps_quota kind = PS_QUOTA_JOBS;
    ps_status st;

    s->quota.status = ps_ok();
    ps_quotas_of(c->quotas, &s->owner, &most);
    if (!has_bounds(&most)) {
        return; /* without a bound, counting would walk over all live jobs for nothing */
    }
    ps_submit_count(c, &s->owner, &used);
    st = ps_quotas_check(&s->owner, &most, &used, &wanted, &kind);
    if (!ps_is_ok(&st)) {
        ps_error_init(&s->quota, st, "QUOTA_EXCEEDED");
        ps_error_meta(&s->quota, "quota", "%s", ps_quota_name(kind));
        ps_error_meta(&s->quota, "allowed", "%" PRIu64, most.of[kind]);
        ps_error_meta(&s->quota, "used", "%" PRIu64, used.of[kind]);
        ps_error_meta(&s->quota, "wanted", "%" PRIu64, wanted.of[kind]);
    }
}

static void take_in(submission *s)
{
    ps_submit submit = {.spec = s->plan->spec,
                        .owner = &s->owner,
                        .parameters = s->plan->layout.param_count,
                        .request_id = s->request_id,
                        .memory_bytes = memory_of(s->plan),
                        .no_queue = s->no_queue,
                        .place = ps_ok(),
                        .then = submitted,
                        .arg = s};

    if (s->no_queue && !ps_queue_may_start(s->held.c, submit.spec, submit.memory_bytes, s->lacks,
                                           sizeof s->lacks)) {
        submit.place = ps_fail(PS_RESOURCE_EXHAUSTED, "the job would have to wait");
    }
    check_quota(s);
    if (!ps_is_ok(&s->quota.status)) {
        submit.place = s->quota.status;
    }
    ps_submit_job(s->held.c, &submit);
}

static void checked(ps_task *task)
{
    submission *s = PS_CONTAINER_OF(task, submission, task);

    ps_shares_leave(&s->held.c->submitting, s->held.share);
    if (s->held.call && ps_is_ok(&s->error.status)) {
        take_in(s);
        return;
    }
    if (s->held.call) {
        ps_call_fail_error(s->held.call, &s->error);
    }
    free_submission(s);
}

void ps_serve_submit_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    static const Psgd__V1__JobSpec nothing = PSGD__V1__JOB_SPEC__INIT;
    const Psgd__V1__SubmitJobRequest *q = (const void *)request;
    const Psgd__V1__JobSpec *spec = q->spec ? q->spec : &nothing;
    ps_coordinator *c = service;
    ps_tasks *tasks = ps_look_is_needed(spec) ? c->looks : c->checks;
    submission *s;

    (void)payload;
    s = ps_xcalloc(1, sizeof *s);
    if (!ps_may_wait(tasks, &c->submitting, "disk", call, &s->held)) {
        free(s);
        return;
    }
    s->task.run = check;
    s->task.done = checked;
    s->request_id = ps_xstrdup(q->request_id);
    s->no_queue = q->no_queue;
    s->owner = *ps_call_caller(call);
    s->spec = (Psgd__V1__JobSpec *)ps_message_copy(&spec->base);
    ps_error_init(&s->error, ps_fail(PS_UNAVAILABLE, "the coordinator is stopping"), "STOPPING");
    ps_hold(&s->held, c, call, "");
    ps_tasks_submit(tasks, NULL, &s->task);
}

/* --- CancelJob ---------------------------------------------------------------- */

/* Milliseconds that a call waits for a checkpoint: if it does not say, and the most that it may
 * say. */
enum { CHECKPOINT_MS = 60000, CHECKPOINT_MS_MAX = 3600000 };

/* A call of CancelJob. It waits for a checkpoint, if one was asked for, and then until the decision
 * to cancel the job is stored. */
typedef struct cancellation {
    ps_change change;
    ps_held held;
    ps_live *live; /* a job without an attempt, whose CANCELLED is being stored; else NULL */
    ps_checkpoint_wait wait;
    char why[PS_PRINCIPAL_TEXT_BYTES + 20]; /* "cancelled by ..." */
} cancellation;

static void answer_cancel(ps_call *call, Psgd__V1__Job *job)
{
    Psgd__V1__CancelJobResponse reply = PSGD__V1__CANCEL_JOB_RESPONSE__INIT;

    reply.job = job;
    ps_call_reply(call, &reply.base);
}

static void refuse_over(ps_call *call, Psgd__V1__Job *job)
{
    ps_refuse(call, PS_FAILED_PRECONDITION, "JOB_IS_OVER", job->id, "job %s is %s already", job->id,
              ps_state_name(job->state));
}

void ps_answer_over(ps_coordinator *c, ps_call *call, const char *job_id)
{
    answer_job(c, call, job_id, PS_ACCESS_CHANGE, refuse_over);
}

static ps_status change_nothing(ps_change *change, ps_registry *r)
{
    (void)change;
    (void)r;
    return ps_ok();
}

/* Answers a CancelJob with the job, when all changes are stored that were submitted before. */
static void decided(ps_change *change)
{
    cancellation *x = PS_CONTAINER_OF(change, cancellation, change);

    if (x->held.call) {
        answer_job(x->held.c, x->held.call, x->held.job_id, PS_ACCESS_CHANGE, answer_cancel);
    }
    free(x);
}

static void cancelled(void *arg, const ps_status *result)
{
    cancellation *x = arg;
    Psgd__V1__Job *job = x->live->record.job;

    if (ps_is_ok(result)) {
        ps_jobs_settle(ps_jobs_of(x->live), x->live);
    } else {
        google__protobuf__timestamp__free_unpacked(job->end_time, NULL);
        job->end_time = NULL;
    }
    if (x->held.call && ps_is_ok(result)) {
        answer_job(x->held.c, x->held.call, x->held.job_id, PS_ACCESS_CHANGE, answer_cancel);
    } else if (x->held.call) {
        ps_refuse_status(x->held.call, result, x->held.job_id);
    }
    free(x);
}

/* Answers the call when all changes are stored that were submitted before: among them the end of
 * the job that was decided. */
static void answer_decided(cancellation *x)
{
    x->change.apply = change_nothing;
    x->change.done = decided;
    x->change.is_relaxed = true;
    ps_writer_submit(x->held.c->writer, &x->change);
}

/* Handles the end of the wait for the checkpoint. If the checkpoint is stored, cancels the job,
 * even if the client has gone. Otherwise refuses the call, and the job is not cancelled. */
static void checkpointed(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step)
{
    cancellation *x = PS_CONTAINER_OF(wait, cancellation, wait);
    char why[sizeof x->why + 60];

    if (ps_is_ok(result)) {
        snprintf(why, sizeof why, "%s; the checkpoint of step %llu is stored", x->why,
                 (unsigned long long)step);
        ps_attempt_cancel(wait->a, why);
        answer_decided(x);
        return;
    }
    if (x->held.call) {
        ps_refuse(x->held.call, result->code, "NO_CHECKPOINT", x->held.job_id,
                  "%s; the job is not cancelled: cancel it without a checkpoint", result->text);
    }
    free(x);
}

static void cancel_after_checkpoint(ps_coordinator *c, ps_call *call, ps_live *live,
                                    const Psgd__V1__CancelJobRequest *q, const char *why)
{
    uint32_t ms = q->checkpoint_ms > 0 ? q->checkpoint_ms : CHECKPOINT_MS;
    cancellation *x;

    if (ms > CHECKPOINT_MS_MAX) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_CHECKPOINT_MS", live->record.job->id,
                  "checkpoint_ms is %u; 1 to %d are allowed, 0 stands for %d", ms,
                  CHECKPOINT_MS_MAX, CHECKPOINT_MS);
        return;
    }
    if (!live->attempt) {
        ps_refuse(call, PS_FAILED_PRECONDITION, "NO_CHECKPOINT", live->record.job->id,
                  "job %s does not train; the job is not cancelled: cancel it without a checkpoint",
                  live->record.job->id);
        return;
    }
    x = ps_xcalloc(1, sizeof *x);
    ps_hold(&x->held, c, call, live->record.job->id);
    x->wait.told = checkpointed;
    snprintf(x->why, sizeof x->why, "%s", why);
    ps_attempt_await_checkpoint(live->attempt, (int64_t)ms * 1000, &x->wait);
}

void ps_serve_cancel_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__CancelJobRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    char who[PS_PRINCIPAL_TEXT_BYTES], why[PS_PRINCIPAL_TEXT_BYTES + 20];
    cancellation *x;

    (void)payload;
    ps_call_about(call, q->job_id);
    if (!live) {
        ps_answer_over(c, call, q->job_id);
        return;
    }
    if (!ps_may_access(call, live->record.job, PS_ACCESS_CHANGE)) {
        return;
    }
    ps_access_owner(ps_call_caller(call), who);
    snprintf(why, sizeof why, "cancelled by %s", who[0] != '\0' ? who : "a client");
    if (q->checkpoint) {
        cancel_after_checkpoint(c, call, live, q, why);
        return;
    }
    x = ps_xcalloc(1, sizeof *x);
    ps_hold(&x->held, c, call, q->job_id);
    if (!live->attempt && live->decisions == 0) {
        x->live = live;
        ps_time_set(&live->record.job->end_time, ps_clock_wall_us());
        ps_live_store(live, PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED, 0, "CANCELLED", why,
                      cancelled, x);
        return;
    }
    if (live->attempt) {
        ps_attempt_cancel(live->attempt, why);
    }
    answer_decided(x);
}

/* --- DeleteJob ---------------------------------------------------------------- */

typedef struct removal {
    ps_change change;
    ps_task task;
    ps_held held;
    ps_principal caller;
    char folder[PS_FOLDER_MAX]; /* the job's folder under its new name; "": there is none */
    ps_status status;
} removal;

static void remove_files(ps_task *task)
{
    removal *r = PS_CONTAINER_OF(task, removal, task);

    r->status = ps_checkpoint_place_remove(r->folder, r->held.job_id);
}

static void removed(ps_task *task)
{
    removal *r = PS_CONTAINER_OF(task, removal, task);

    if (!ps_is_ok(&r->status)) {
        ps_log(PS_LOG_WARN, "job", "%s", r->status.text);
    }
    free(r);
}

/* Checks that the caller may delete the job. A row that is damaged has no owner, so only those who
 * may delete all jobs can delete it. */
static ps_status check_owner(const removal *r, ps_registry *registry)
{
    ps_record record = {0};
    ps_status st = ps_ok();

    if (!ps_access_has(&r->caller, "", PS_ACCESS_CHANGE)) {
        st = ps_registry_load(registry, r->held.job_id, &record);
        st = ps_is_ok(&st) ? ps_access_check(&r->caller, record.job, PS_ACCESS_CHANGE) : st;
        ps_record_fini(&record);
    }
    return st;
}

/* Deletes the job's row and renames its folder. After a crash ps_artifacts_sweep sees to it that
 * either both have happened or neither. */
static ps_status forget_job(ps_change *change, ps_registry *registry)
{
    removal *r = PS_CONTAINER_OF(change, removal, change);
    const char *data_dir = r->held.c->conf.data_dir, *job_id = r->held.job_id;
    ps_status st = check_owner(r, registry), moved;

    if (ps_is_ok(&st)) {
        st = ps_registry_begin(registry);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    /* Fails if there is no such job: an id that the registry has is safe as a folder's name. */
    st = ps_registry_remove(registry, job_id);
    if (!ps_is_ok(&st)) {
        return ps_registry_end(registry, &st);
    }
    moved = ps_artifacts_set_aside(data_dir, job_id, r->folder);
    st = ps_registry_end(registry, &st);
    if (ps_is_ok(&st) && !ps_is_ok(&moved)) {
        r->folder[0] = '\0';
        if (moved.code != PS_NOT_FOUND) {
            ps_log(PS_LOG_WARN, "job", "the files of deleted job %s stay: %s", job_id, moved.text);
        }
    } else if (!ps_is_ok(&st) && ps_is_ok(&moved)) {
        moved = ps_artifacts_take_back(data_dir, job_id);
        if (!ps_is_ok(&moved)) {
            ps_log(PS_LOG_ERROR, "job", "%s", moved.text);
        }
    }
    return st;
}

static void forgotten(ps_change *change)
{
    removal *r = PS_CONTAINER_OF(change, removal, change);
    Psgd__V1__DeleteJobResponse reply = PSGD__V1__DELETE_JOB_RESPONSE__INIT;
    ps_call *call = r->held.call;
    ps_coordinator *c = r->held.c;
    bool has_files = ps_is_ok(&change->status) && r->folder[0] != '\0' && c->tasks;

    r->held.call = NULL;
    if (has_files) { /* if the task fails, the next start removes the folder */
        ps_tasks_submit(c->tasks, NULL, &r->task);
    }
    if (call && ps_is_ok(&change->status)) {
        ps_call_reply(call, &reply.base);
    } else if (call) {
        ps_refuse_status(call, &change->status, r->held.job_id);
    }
    if (!has_files) {
        free(r);
    }
}

void ps_serve_delete_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__DeleteJobRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    removal *r;

    (void)payload;
    ps_call_about(call, q->job_id);
    if (live && !ps_may_access(call, live->record.job, PS_ACCESS_CHANGE)) {
        return;
    }
    if (live) {
        ps_refuse(call, PS_FAILED_PRECONDITION, "JOB_IS_NOT_OVER", q->job_id,
                  "job %s is %s; cancel it first", PS_SHORT(q->job_id, 96),
                  ps_state_name(live->record.job->state));
        return;
    }
    r = ps_xcalloc(1, sizeof *r);
    r->change.apply = forget_job;
    r->change.done = forgotten;
    r->change.is_alone = true;
    r->caller = *ps_call_caller(call);
    r->task.run = remove_files;
    r->task.done = removed;
    ps_hold(&r->held, c, call, q->job_id);
    ps_writer_submit(c->writer, &r->change);
}
