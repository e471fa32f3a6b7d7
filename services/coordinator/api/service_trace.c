/* SPDX-License-Identifier: Apache-2.0 */
/* service_trace.c - TraceJob. */
#include "common/base/container_of.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/trace/trace.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/driver.h"

#include <stdlib.h>

enum { STEPS_DEFAULT = 20 };

/* A call of TraceJob that waits for the timeline. */
typedef struct tracing {
    ps_held held;
    ps_trace_wait wait;
} tracing;

static bool is_wanted(const ps_trace_wait *wait)
{
    return PS_CONTAINER_OF(wait, const tracing, wait)->held.call != NULL;
}

static void told(ps_trace_wait *wait, const ps_status *result, const char *name, uint64_t from_step)
{
    Psgd__V1__TraceJobResponse reply = PSGD__V1__TRACE_JOB_RESPONSE__INIT;
    tracing *t = PS_CONTAINER_OF(wait, tracing, wait);

    reply.name = (char *)name;
    reply.from_step = from_step;
    if (t->held.call != NULL && ps_is_ok(result)) {
        ps_call_reply(t->held.call, &reply.base);
    } else if (t->held.call != NULL) {
        ps_refuse(t->held.call, result->code, "NO_TIMELINE", t->held.job_id, "%s", result->text);
    }
    free(t);
}

void ps_serve_trace_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__TraceJobRequest *q = (const void *)request;
    uint32_t steps = q->steps > 0 ? q->steps : STEPS_DEFAULT;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    tracing *t;

    (void)payload;
    ps_call_about(call, q->job_id);
    if (live != NULL && !ps_may_access(call, live->record.job, PS_ACCESS_CHANGE)) {
        return;
    }
    if (steps > PS_TRACE_STEPS_MAX) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_STEPS", q->job_id,
                  "steps: is %u; 1 to %d are allowed", steps, PS_TRACE_STEPS_MAX);
        return;
    }
    if (live == NULL || live->attempt == NULL) {
        ps_refuse(call, PS_FAILED_PRECONDITION, "NO_TIMELINE", q->job_id,
                  "job %s does not train: psgd get shows its state", PS_SHORT(q->job_id, 80));
        return;
    }
    t = ps_xcalloc(1, sizeof *t);
    ps_hold(&t->held, c, call, live->record.job->id);
    t->wait = (ps_trace_wait){.is_wanted = is_wanted, .told = told};
    ps_attempt_trace(live->attempt, steps, &t->wait);
}
