/* SPDX-License-Identifier: Apache-2.0 */
/* service_tables.c - ChangeTables. */
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/driver.h"

#include <stdlib.h>

static void changed(void *arg, const ps_status *st, uint64_t step)
{
    Psgd__V1__ChangeTablesResponse reply = PSGD__V1__CHANGE_TABLES_RESPONSE__INIT;
    ps_held *held = arg;

    reply.step = step;
    if (held->call && ps_is_ok(st)) {
        ps_call_reply(held->call, &reply.base);
    } else if (held->call) {
        ps_refuse(held->call, st->code, "TABLES_UNCHANGED", held->job_id, "%s", st->text);
    }
    free(held);
}

void ps_serve_change_tables(void *service, const ProtobufCMessage *request, ps_payload *payload,
                            ps_call *call)
{
    const Psgd__V1__ChangeTablesRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    ps_held *held;

    (void)payload;
    ps_call_about(call, q->job_id);
    if (q->action != PSGD__V1__TABLES_ACTION__TABLES_ACTION_SHRINK &&
        q->action != PSGD__V1__TABLES_ACTION__TABLES_ACTION_SAVE) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_ACTION", q->job_id,
                  "action is %d; SHRINK and SAVE are allowed",
                  (int)q->action);
        return;
    }
    if (live && !ps_may_access(call, live->record.job, PS_ACCESS_CHANGE)) {
        return;
    }
    if (!live || !live->attempt) {
        ps_refuse(call, PS_FAILED_PRECONDITION, "JOB_DOES_NOT_TRAIN", q->job_id,
                  "job %s does not train: psgd get shows its state", PS_SHORT(q->job_id, 80));
        return;
    }
    held = ps_xcalloc(1, sizeof *held);
    ps_hold(held, c, call, q->job_id);
    ps_attempt_act_on_tables(live->attempt, q->action, changed, held);
}
