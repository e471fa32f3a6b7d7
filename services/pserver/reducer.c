/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.c - see reducer.h. Tasks store records, several at a time. When all partitions are
 * stored, a task starts the sandbox and another one reduces.
 */
#include "services/pserver/reducer.h"

#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/computation.h"
#include "common/rpc/tasks.h"
#include "common/script/record_owner.h"

#include "psgd/v1/parameter.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* Threads for the tasks, and how many tasks may wait: each has records in memory. A request has at
 * most PS_PART_RECORDS_MAX bytes of records beside its head. */
enum { THREADS = 2, WAITING_MAX = 64, REQUEST_BYTES = 1 << 20, PATH_BYTES = 640 };

typedef enum stage { MISSING, STORING, STORED } stage;

struct ps_reducer {
    ps_reducer_conf conf;
    ps_tasks *tasks;
    const ps_session *session; /* NULL: none */
    uint32_t count, stored;    /* partitions; those with the stage STORED */
    stage *at;                 /* (count) of each partition */
    uint32_t pending;          /* tasks that are not done */
    bool is_closing;
    ps_task task;          /* starts the sandbox, or reduces */
    ps_executor *fresh;    /* the sandbox that `start` has started */
    ps_executor *executor; /* the sandbox, once `started` has it; NULL: not yet */
    ps_status status;      /* result of `task` */
};

ps_status ps_reducer_create(const ps_reducer_conf *conf, ps_reducer **out)
{
    ps_reducer *r = ps_xcalloc(1, sizeof *r);
    ps_status st = ps_tasks_create(conf->loop, THREADS, WAITING_MAX, &r->tasks);

    r->conf = *conf;
    if (!ps_is_ok(&st)) {
        free(r);
        return st;
    }
    *out = r;
    return st;
}

void ps_reducer_destroy(ps_reducer *r)
{
    if (r != NULL) {
        ps_tasks_destroy(r->tasks);
        free(r);
    }
}

bool ps_reducer_is_open(const ps_reducer *r)
{
    return r->session != NULL;
}

void ps_reducer_open(ps_reducer *r, const ps_session *session)
{
    r->session = session;
    r->count = session->plan->spec->compute->partitions;
    r->stored = 0;
    r->at = ps_xcalloc(r->count, sizeof *r->at);
    r->is_closing = false;
}

/* Ends the session if it is being closed and no task is left. */
static void settle(ps_reducer *r)
{
    if (!r->is_closing || r->pending > 0) {
        return;
    }
    ps_executor_end(r->executor);
    r->executor = NULL;
    free(r->at);
    r->at = NULL;
    r->session = NULL;
    r->is_closing = false;
    r->conf.closed(r->conf.arg);
}

void ps_reducer_close(ps_reducer *r)
{
    r->is_closing = true;
    if (r->executor != NULL) {
        ps_executor_stop(r->executor);
    }
    settle(r);
}

/* ---- Reducing ---- */

static void submit(ps_reducer *r, void (*run)(ps_task *task), void (*done)(ps_task *task))
{
    r->task = (ps_task){.run = run, .done = done};
    r->status = ps_fail(PS_CANCELLED, "the server is stopping");
    r->pending++;
    ps_tasks_submit(r->tasks, NULL, &r->task);
}

static void reduce(ps_task *task)
{
    ps_reducer *r = PS_CONTAINER_OF(task, ps_reducer, task);
    const ps_result_conf conf = ps_compute_result(r->session->plan, r->session->folder);
    char path[PATH_BYTES];

    r->status = ps_path_join(path, sizeof path, r->session->folder, PS_REDUCED_FILE);
    if (ps_is_ok(&r->status)) {
        r->status = ps_result_reduce(&conf, r->executor, path);
    }
}

static void reduced(ps_task *task)
{
    ps_reducer *r = PS_CONTAINER_OF(task, ps_reducer, task);

    r->pending--;
    if (!r->is_closing) {
        r->conf.reduced(r->conf.arg, &r->status);
    }
    settle(r);
}

static void start(ps_task *task)
{
    ps_reducer *r = PS_CONTAINER_OF(task, ps_reducer, task);
    const ps_plan *plan = r->session->plan;
    const ps_sandbox_budget budget = ps_compute_budget(plan);

    r->status = ps_executor_start(plan->compute, &budget, &r->fresh);
}

static void started(ps_task *task)
{
    ps_reducer *r = PS_CONTAINER_OF(task, ps_reducer, task);

    r->executor = r->fresh;
    r->fresh = NULL;
    if (ps_is_ok(&r->status) && !r->is_closing) {
        r->pending--;
        submit(r, reduce, reduced);
    } else {
        reduced(task);
    }
}

/* ---- Records ---- */

typedef struct storing {
    ps_task task;
    ps_reducer *r;
    ps_call *call; /* the call to be answered; NULL: it has ended */
    uint32_t part; /* from 0 */
    uint8_t *records;
    size_t bytes;
    ps_status status;
} storing;

static void store(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    const ps_session *session = s->r->session;
    char name[PS_MERGE_NAME_BYTES], path[PATH_BYTES];

    ps_part_name(name, s->part);
    s->status = ps_path_join(path, sizeof path, session->folder, name);
    if (!ps_is_ok(&s->status)) {
        return;
    }
    s->status =
        ps_records_are_of(s->records, s->bytes, session->rank, session->placement.server_count)
            ? ps_file_write(path, s->records, s->bytes)
            : ps_fail(PS_INVALID_ARGUMENT,
                      "records: %zu bytes that are no sorted records of keys of server %u",
                      s->bytes, session->rank);
}

static void stored(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    const Psgd__V1__PushRecordsResponse reply = PSGD__V1__PUSH_RECORDS_RESPONSE__INIT;
    ps_reducer *r = s->r;
    bool is_stored = ps_is_ok(&s->status);

    r->pending--;
    r->at[s->part] = is_stored ? STORED : MISSING;
    r->stored += is_stored;
    if (s->call != NULL && r->is_closing) {
        ps_call_fail(s->call, ps_fail(PS_UNAVAILABLE, "the attempt is over"));
    } else if (s->call != NULL && is_stored) {
        ps_call_reply(s->call, &reply.base);
    } else if (s->call != NULL) {
        ps_call_fail(s->call, ps_wrap(s->status, "partition %u", s->part + 1));
    }
    if (is_stored && r->stored == r->count && !r->is_closing) {
        ps_log(PS_LOG_INFO, "pserver", "reduces the records of %u partitions", r->count);
        submit(r, start, started);
    }
    free(s->records);
    free(s);
    settle(r);
}

static void call_gone(void *arg, ps_call *call)
{
    storing *s = arg;

    (void)call;
    s->call = NULL;
}

static void begin_storing(ps_reducer *r, const Psgd__V1__PushRecordsRequest *q, ps_call *call)
{
    storing *s = ps_xcalloc(1, sizeof *s);

    s->r = r;
    s->call = call;
    s->part = q->partition - 1;
    s->bytes = q->records.len;
    s->records = ps_xmalloc(s->bytes + 1);
    if (s->bytes > 0) {
        memcpy(s->records, q->records.data, s->bytes);
    }
    s->status = ps_fail(PS_UNAVAILABLE, "the server is stopping");
    s->task = (ps_task){.run = store, .done = stored};
    r->at[s->part] = STORING;
    r->pending++;
    ps_call_on_gone(call, call_gone, s);
    ps_tasks_submit(r->tasks, NULL, &s->task);
}

/* Checks that the call is of the worker that carries the rank it names, in the attempt that the
 * reducer has. Ends the call otherwise. */
static bool is_of_worker(const ps_reducer *r, const Psgd__V1__PushRecordsRequest *q, ps_call *call)
{
    const bool is_open = r->session != NULL && !r->is_closing;
    const ps_wire_attempt attempt =
        is_open ? ps_session_attempt(r->session) : (ps_wire_attempt){.attempt = 0};
    const ps_principal *caller = ps_call_caller(call);
    ps_refusal refusal = ps_identity_check(is_open ? &attempt : NULL, q->worker, q->attempt);

    if (refusal.reason == NULL) {
        refusal = ps_identity_check_node(&r->session->placement, q->worker->rank,
                                         caller->kind == PS_PRINCIPAL_NODE ? caller->name : NULL);
    }
    return ps_identity_allows(call, &refusal);
}

static void push_records(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__PushRecordsRequest *q = (const void *)request;
    const Psgd__V1__PushRecordsResponse reply = PSGD__V1__PUSH_RECORDS_RESPONSE__INIT;
    ps_reducer *r = service;

    (void)payload;
    if (!is_of_worker(r, q, call)) {
        return;
    }
    if (q->partition == 0 || q->partition > r->count || q->records.len > PS_PART_RECORDS_MAX) {
        ps_call_fail(call, ps_fail(PS_INVALID_ARGUMENT,
                                   "partition: %u of %u, with %zu bytes of records; at most %d are "
                                   "allowed",
                                   q->partition, r->count, q->records.len, PS_PART_RECORDS_MAX));
    } else if (r->at[q->partition - 1] == STORED) {
        ps_call_reply(call, &reply.base);
    } else if (r->at[q->partition - 1] == STORING) {
        ps_call_fail(call, ps_fail(PS_UNAVAILABLE, "partition %u is being stored", q->partition));
    } else if (!ps_tasks_has_room(r->tasks)) {
        ps_call_fail(call, ps_fail(PS_RESOURCE_EXHAUSTED,
                                   "the records of %d partitions wait for the disk", WAITING_MAX));
    } else {
        begin_storing(r, q, call);
    }
}

static const ps_method methods[] = {
    {.name = "PushRecords", .handle = push_records, .may = PS_MAY_NODE, .max_bytes = REQUEST_BYTES},
};

ps_service ps_reducer_service(ps_reducer *r)
{
    return (ps_service){
        .type = &psgd__v1__record_service__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .state = r,
    };
}
