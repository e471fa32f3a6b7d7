/* SPDX-License-Identifier: Apache-2.0 */
/* service_jobs.c - SubmitJob, GetJob, ListJobs, CancelJob, DeleteJob. */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/look.h"
#include "common/job/plan.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/artifacts.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/init.h"
#include "services/coordinator/message.h"
#include "services/coordinator/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES_MAX = 2 << 20 }; /* what every client can take, with room */

/* --- one job ------------------------------------------------------------------ */

/* The job as it is now; *loaded is to be finished by the caller. */
static ps_status look_up(ps_coordinator *c, const char *job_id, ps_record *loaded,
                         Psgd__V1__Job **job)
{
    ps_live *live = ps_coordinator_find(c, job_id);
    ps_status st;

    *loaded = (ps_record){0};
    if (live) {
        *job = live->record.job;
        return ps_ok();
    }
    st = ps_registry_load(c->registry, job_id, loaded);
    if (ps_is_ok(&st)) {
        *job = loaded->job;
    }
    return st;
}

void ps_serve_get_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                      ps_call *call)
{
    const Psgd__V1__GetJobRequest *q = (const void *)request;
    Psgd__V1__GetJobResponse reply = PSGD__V1__GET_JOB_RESPONSE__INIT;
    ps_record loaded;
    ps_status st = look_up(service, q->job_id, &loaded, &reply.job);

    (void)payload;
    if (ps_is_ok(&st)) {
        ps_call_reply(call, &reply.base);
    } else {
        ps_refuse_status(call, &st, q->job_id);
    }
    ps_record_fini(&loaded);
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

/* Whatever is wrong with the model to start from is the field's fault. */
static ps_status check_init(ps_coordinator *c, const ps_plan *plan, ps_error *error)
{
    const char *field = "spec.init_from";
    ps_status st = ps_init_check(c, plan);

    if (ps_is_ok(&st)) {
        field = plan->spec->n_init_tables > 0 ? "spec.init_tables" : field;
        st = ps_init_check_tables(c, plan);
    }
    if (ps_is_ok(&st)) {
        return st;
    }
    ps_error_violate(error, field, "%s", st.text);
    return ps_fail(PS_INVALID_ARGUMENT, "%s: %s", field, st.text);
}

static void refuse_for_room(const ps_coordinator *c, ps_call *call, const ps_status *st)
{
    ps_error error;

    ps_error_init(&error, *st, "DISK_LOW");
    ps_error_meta(&error, "free_bytes", "%" PRIu64, c->room.free_bytes);
    ps_error_meta(&error, "needed_bytes", "%" PRIu64, c->room.min_free_bytes);
    ps_call_fail_error(call, &error);
}

/* Accepts a job whose data set was looked at, or needs no look. */
static void submit(ps_coordinator *c, const Psgd__V1__JobSpec *spec, const char *request_id,
                   ps_call *call)
{
    Psgd__V1__SubmitJobResponse reply = PSGD__V1__SUBMIT_JOB_RESPONSE__INIT;
    char job_id[PS_COORDINATOR_ID_MAX] = "";
    ps_record loaded = {0};
    ps_plan *plan = NULL;
    ps_error error;
    ps_status st;

    ps_error_init(&error, ps_fail(PS_INVALID_ARGUMENT, "wrong fields"), "BAD_JOB_SPEC");
    st = ps_plan_create(spec, note_violation, &error, &plan);
    if (ps_is_ok(&st)) {
        st = check_init(c, plan, &error);
    }
    if (!is_request_id(request_id)) {
        ps_error_violate(&error, "request_id", "at most %d printable ASCII characters",
                         PS_REQUEST_ID_MAX);
        if (ps_is_ok(&st)) {
            st = ps_fail(PS_INVALID_ARGUMENT, "request_id: at most %d printable ASCII characters",
                         PS_REQUEST_ID_MAX);
        }
    }
    if (!ps_is_ok(&st)) {
        error.status = st;
        ps_call_fail_error(call, &error);
        ps_plan_destroy(plan);
        return;
    }
    st = ps_coordinator_submit(c, plan->spec, request_id, job_id);
    ps_plan_destroy(plan);
    if (ps_is_ok(&st)) {
        st = look_up(c, job_id, &loaded, &reply.job);
    }
    if (ps_is_ok(&st)) {
        ps_call_reply(call, &reply.base);
    } else if (st.code == PS_RESOURCE_EXHAUSTED && c->room.is_low) {
        refuse_for_room(c, call, &st);
    } else if (st.code == PS_ALREADY_EXISTS) {
        ps_refuse(call, st.code, "REQUEST_ID_USED", job_id, "%s", st.text);
    } else {
        ps_refuse_status(call, &st, job_id);
    }
    ps_record_fini(&loaded);
}

/* A job whose data set's files are being read by a task. */
typedef struct looking {
    ps_task task;
    ps_coordinator *c;
    ps_call *call; /* NULL: the caller has gone, and the job with it */
    char *request_id;
    Psgd__V1__JobSpec *spec, *full; /* as submitted; with what the files say */
    ps_status status;
} looking;

static void run_look(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);

    l->status = ps_look(l->spec, l->c->conf.data_path, &l->full);
}

static void look_done(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);

    if (l->call && ps_is_ok(&l->status)) {
        submit(l->c, l->full, l->request_id, l->call);
    } else if (l->call) {
        ps_error error;

        ps_error_init(&error, l->status, "BAD_DATA");
        ps_error_violate(&error, "spec.data", "%s", l->status.text);
        ps_call_fail_error(l->call, &error);
    }
    if (l->full) {
        psgd__v1__job_spec__free_unpacked(l->full, NULL);
    }
    psgd__v1__job_spec__free_unpacked(l->spec, NULL);
    free(l->request_id);
    free(l);
}

static void look_gone(void *arg, ps_call *call)
{
    looking *l = arg;

    (void)call;
    l->call = NULL;
}

void ps_serve_submit_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    static const Psgd__V1__JobSpec nothing = PSGD__V1__JOB_SPEC__INIT;
    const Psgd__V1__SubmitJobRequest *q = (const void *)request;
    const Psgd__V1__JobSpec *spec = q->spec ? q->spec : &nothing;
    looking *l;

    (void)payload;
    if (!ps_look_is_needed(spec)) {
        submit(service, spec, q->request_id, call);
        return;
    }
    l = ps_xcalloc(1, sizeof *l);
    l->task.run = run_look;
    l->task.done = look_done;
    l->c = service;
    l->call = call;
    l->request_id = ps_xstrdup(q->request_id);
    l->spec = (Psgd__V1__JobSpec *)ps_message_copy(&spec->base);
    l->status = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    ps_call_on_gone(call, look_gone, l);
    ps_tasks_submit(l->c->tasks, &l->c->in_order, &l->task);
}

/* --- ListJobs ----------------------------------------------------------------- */

typedef struct page {
    ps_coordinator *c;
    size_t size;
    size_t bytes;
    ps_record *records;   /* (size) */
    Psgd__V1__Job **jobs; /* (size): of the records, or of live jobs, which are newer */
    size_t count;
    bool has_more;
} page;

static bool add_to_page(void *arg, ps_record *record)
{
    page *p = arg;
    ps_live *live = ps_coordinator_find(p->c, record->job->id);
    Psgd__V1__Job *job = live ? live->record.job : record->job;

    p->bytes += psgd__v1__job__get_packed_size(job) + 16;
    if (p->count == p->size || (p->count > 0 && p->bytes > PAGE_BYTES_MAX)) {
        ps_record_fini(record);
        p->has_more = true;
        return false;
    }
    p->records[p->count] = *record;
    p->jobs[p->count++] = job;
    return true;
}

void ps_serve_list_jobs(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__ListJobsRequest *q = (const void *)request;
    Psgd__V1__ListJobsResponse reply = PSGD__V1__LIST_JOBS_RESPONSE__INIT;
    page p = {.c = service};
    char position[32], token[PS_PAGE_TOKEN_MAX];
    uint32_t states = 0;
    uint64_t before = 0;
    ps_status st;

    (void)payload;
    if (!ps_page_size(call, q->page_size, &p.size)) {
        return;
    }
    if (!ps_page_token_read(q->page_token, position, sizeof position) ||
        (position[0] && sscanf(position, "j%" SCNu64, &before) != 1)) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_PAGE_TOKEN", NULL,
                  "page_token is not one that ListJobs gave");
        return;
    }
    for (size_t i = 0; i < q->n_states; i++) {
        if (q->states[i] < 1 || q->states[i] > PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED) {
            ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_STATE", NULL, "states[%zu] is no state", i);
            return;
        }
        states |= 1u << (unsigned)q->states[i];
    }
    p.records = ps_xcalloc(p.size, sizeof *p.records);
    p.jobs = ps_xcalloc(p.size, sizeof *p.jobs);
    st = ps_registry_each(p.c->registry, before, states ? states : UINT32_MAX, add_to_page, &p);
    if (ps_is_ok(&st)) {
        reply.n_jobs = p.count;
        reply.jobs = p.jobs;
        if (p.has_more) {
            snprintf(position, sizeof position, "j%" PRIu64, p.records[p.count - 1].number);
            ps_page_token_make(token, position);
            reply.next_page_token = token;
        }
        ps_call_reply(call, &reply.base);
    } else {
        ps_refuse_status(call, &st, NULL);
    }
    for (size_t i = 0; i < p.count; i++) {
        ps_record_fini(&p.records[i]);
    }
    free(p.records);
    free(p.jobs);
}

/* --- CancelJob ---------------------------------------------------------------- */

void ps_serve_cancel_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__CancelJobRequest *q = (const void *)request;
    Psgd__V1__CancelJobResponse reply = PSGD__V1__CANCEL_JOB_RESPONSE__INIT;
    ps_coordinator *c = service;
    ps_live *live = ps_coordinator_find(c, q->job_id);
    ps_record loaded = {0};
    ps_status st;

    (void)payload;
    if (live && live->attempt) {
        ps_attempt_cancel(live->attempt, "cancelled by a client");
        live = ps_coordinator_find(c, q->job_id);
    } else if (live) {
        ps_time_set(&live->record.job->end_time, ps_clock_wall_us());
        st = ps_live_store(live, PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED, 0, "CANCELLED",
                           "cancelled by a client");
        if (!ps_is_ok(&st)) {
            google__protobuf__timestamp__free_unpacked(live->record.job->end_time, NULL);
            live->record.job->end_time = NULL;
            ps_refuse_status(call, &st, q->job_id);
            return;
        }
        ps_coordinator_job_over(c, live);
        live = NULL;
    } else {
        st = ps_registry_load(c->registry, q->job_id, &loaded);
        if (ps_is_ok(&st)) {
            ps_refuse(call, PS_FAILED_PRECONDITION, "JOB_IS_OVER", q->job_id,
                      "job %.70s is %s already", q->job_id, ps_state_name(loaded.job->state));
        } else {
            ps_refuse_status(call, &st, q->job_id);
        }
        ps_record_fini(&loaded);
        return;
    }
    st = look_up(c, q->job_id, &loaded, &reply.job);
    if (ps_is_ok(&st)) {
        ps_call_reply(call, &reply.base);
    } else {
        ps_refuse_status(call, &st, q->job_id);
    }
    ps_record_fini(&loaded);
}

/* --- DeleteJob ---------------------------------------------------------------- */

typedef struct removal {
    ps_task task;
    char folder[PS_FOLDER_MAX];
    ps_status status;
} removal;

static void remove_files(ps_task *task)
{
    removal *r = PS_CONTAINER_OF(task, removal, task);

    r->status = ps_dir_remove(r->folder);
}

static void removed(ps_task *task)
{
    removal *r = PS_CONTAINER_OF(task, removal, task);

    if (!ps_is_ok(&r->status)) {
        ps_log(PS_LOG_WARN, "job", "%s", r->status.text);
    }
    free(r);
}

/* Forgets the job and sets its folder aside: both or, also after a crash, none of it. */
static ps_status forget_job(ps_coordinator *c, const char *job_id, char folder[PS_FOLDER_MAX])
{
    ps_status st = ps_registry_begin(c->registry), moved;

    if (!ps_is_ok(&st)) {
        return st;
    }
    folder[0] = '\0';
    st = ps_registry_remove(c->registry, job_id); /* then its id is one of ours */
    if (!ps_is_ok(&st)) {
        moved = ps_registry_end(c->registry);
        (void)moved; /* the same failure */
        return st;
    }
    moved = ps_artifacts_set_aside(c->conf.data_dir, job_id, folder);
    st = ps_registry_end(c->registry);
    if (ps_is_ok(&st) && !ps_is_ok(&moved)) {
        folder[0] = '\0';
        if (moved.code != PS_NOT_FOUND) {
            ps_log(PS_LOG_WARN, "job", "the files of deleted job %s stay: %s", job_id, moved.text);
        }
    } else if (!ps_is_ok(&st) && ps_is_ok(&moved)) {
        moved = ps_artifacts_take_back(c->conf.data_dir, job_id);
        if (!ps_is_ok(&moved)) {
            ps_log(PS_LOG_ERROR, "job", "%s", moved.text);
        }
    }
    return st;
}

void ps_serve_delete_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__DeleteJobRequest *q = (const void *)request;
    Psgd__V1__DeleteJobResponse reply = PSGD__V1__DELETE_JOB_RESPONSE__INIT;
    ps_coordinator *c = service;
    ps_live *live = ps_coordinator_find(c, q->job_id);
    char folder[PS_FOLDER_MAX];
    ps_status st;

    (void)payload;
    if (live) {
        ps_refuse(call, PS_FAILED_PRECONDITION, "JOB_IS_NOT_OVER", q->job_id,
                  "job %.70s is %s; cancel it first", q->job_id,
                  ps_state_name(live->record.job->state));
        return;
    }
    st = forget_job(c, q->job_id, folder);
    if (!ps_is_ok(&st)) {
        ps_refuse_status(call, &st, q->job_id);
        return;
    }
    if (folder[0] != '\0') {
        removal *r = ps_xcalloc(1, sizeof *r);

        r->task.run = remove_files;
        r->task.done = removed;
        snprintf(r->folder, sizeof r->folder, "%s", folder);
        ps_tasks_submit(c->tasks, &c->in_order, &r->task);
    }
    ps_call_reply(call, &reply.base);
}
