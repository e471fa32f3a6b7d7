/* SPDX-License-Identifier: Apache-2.0 */
/* service_checkpoints.c - TakeCheckpoint and ListCheckpoints. A task reads the folders that are
 * listed. */
#include "common/base/container_of.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <stdlib.h>

void ps_serve_take_checkpoint(void *service, const ProtobufCMessage *request, ps_payload *payload,
                              ps_call *call)
{
    const Psgd__V1__TakeCheckpointRequest *q = (const void *)request;
    Psgd__V1__TakeCheckpointResponse reply = PSGD__V1__TAKE_CHECKPOINT_RESPONSE__INIT;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    ps_status st =
        ps_fail(PS_FAILED_PRECONDITION, "job %s does not train: psgd get shows its state",
                PS_SHORT(q->job_id, 80));

    (void)payload;
    ps_call_about(call, q->job_id);
    if (live && !ps_may_access(call, live->record.job, PS_ACCESS_CHANGE)) {
        return;
    }
    if (live && live->attempt) {
        st = ps_attempt_take_checkpoint(live->attempt, &reply.clock);
    }
    if (ps_is_ok(&st)) {
        ps_call_reply(call, &reply.base);
    } else {
        ps_refuse(call, st.code, "NO_CHECKPOINT", q->job_id, "%s", st.text);
    }
}

typedef struct listing {
    ps_task task;
    ps_held held;
    ps_principal caller;
    size_t count;
    Psgd__V1__Checkpoint *items; /* (count) */
    ps_status status;
} listing;

/* Reads the checkpoint at `step` into *out. Returns whether it is whole: then sets *facts, else
 * out->damage. */
static bool fill(const char *folder, uint64_t step, Psgd__V1__Checkpoint *out,
                 ps_checkpoint_facts *facts)
{
    ps_checkpoint c;
    ps_status st = ps_checkpoint_read(folder, step, false, &c);

    psgd__v1__checkpoint__init(out);
    out->step = step;
    if (!ps_is_ok(&st)) {
        ps_text_set(&out->damage, st.text);
        return false;
    }
    out->clock = c.facts.clock;
    out->bytes = c.bytes;
    out->parent = c.facts.parent;
    out->is_passing = c.facts.is_passing;
    ps_time_set(&out->time, c.stored_s * 1000000);
    *facts = c.facts;
    ps_text_set(&out->metric, facts->metric);
    out->value = facts->value;
    out->evaluated_step = facts->evaluated_step;
    ps_checkpoint_fini(&c);
    return true;
}

static void fill_all(const char *folder, const uint64_t *steps, listing *l)
{
    ps_checkpoint_facts *facts = ps_xcalloc(l->count + 1, sizeof *facts);
    size_t *item = ps_xcalloc(l->count + 1, sizeof *item), n = 0, best;

    for (size_t i = 0; i < l->count; i++) {
        item[n] = i;
        n += fill(folder, steps[i], &l->items[i], &facts[n]);
    }
    best = ps_checkpoint_best(facts, n);
    if (best < n) {
        l->items[item[best]].is_best = true;
    }
    free(facts);
    free(item);
}

static void list(ps_task *task)
{
    listing *l = PS_CONTAINER_OF(task, listing, task);
    char folder[PS_FOLDER_MAX];
    uint64_t *steps = NULL;
    ps_record record = {0};

    l->status = ps_registry_load(l->held.c->reader, l->held.job_id, &record);
    if (ps_is_ok(&l->status)) {
        l->status = ps_access_check(&l->caller, record.job, PS_ACCESS_SEE);
    }
    if (ps_is_ok(&l->status)) {
        l->status = ps_artifacts_folder(folder, l->held.c->conf.data_dir, l->held.job_id);
    }
    ps_record_fini(&record);
    if (ps_is_ok(&l->status)) {
        l->count = ps_checkpoint_list(folder, &steps);
    }
    l->items = ps_xcalloc(l->count + 1, sizeof *l->items);
    fill_all(folder, steps, l);
    free(steps);
}

static void answer(const listing *l)
{
    Psgd__V1__ListCheckpointsResponse reply = PSGD__V1__LIST_CHECKPOINTS_RESPONSE__INIT;
    Psgd__V1__Checkpoint **items = ps_xcalloc(l->count + 1, sizeof(Psgd__V1__Checkpoint *));

    for (size_t i = 0; i < l->count; i++) {
        items[i] = &l->items[i];
    }
    reply.n_checkpoints = l->count;
    reply.checkpoints = items;
    ps_call_reply(l->held.call, &reply.base);
    free(items);
}

static void listed(ps_task *task)
{
    listing *l = PS_CONTAINER_OF(task, listing, task);

    if (l->held.call && ps_is_ok(&l->status)) {
        answer(l);
    } else if (l->held.call) {
        ps_refuse_status(l->held.call, &l->status, l->held.job_id);
    }
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].damage != protobuf_c_empty_string) {
            free(l->items[i].damage);
        }
        if (l->items[i].metric != protobuf_c_empty_string) {
            free(l->items[i].metric);
        }
        free(l->items[i].time);
    }
    free(l->items);
    ps_shares_leave(&l->held.c->reading, l->held.share);
    free(l);
}

void ps_serve_list_checkpoints(void *service, const ProtobufCMessage *request, ps_payload *payload,
                               ps_call *call)
{
    const Psgd__V1__ListCheckpointsRequest *q = (const void *)request;
    ps_coordinator *c = service;
    listing *l;

    (void)payload;
    l = ps_xcalloc(1, sizeof *l);
    if (!ps_may_wait(c->reads, &c->reading, "registry", call, &l->held)) {
        free(l);
        return;
    }
    l->caller = *ps_call_caller(call);
    l->task.run = list;
    l->task.done = listed;
    l->status = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    ps_hold_for_read(&l->held, c, call, q->job_id, &l->task);
}
