/* SPDX-License-Identifier: Apache-2.0 */
/* job_store.c - see job_store.h. */
#include "services/coordinator/io/job_store.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>

/* A change of a job that the writer is storing. */
typedef struct stored_change {
    ps_change change;
    ps_live_change *of;
    int64_t wall_us;
} stored_change;

static ps_status apply(ps_change *change, ps_registry *r)
{
    const stored_change *s = PS_CONTAINER_OF(change, stored_change, change);
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

    time.seconds = s->wall_us / 1000000;
    time.nanos = (int32_t)(s->wall_us % 1000000) * 1000;
    event.sequence = s->of->sequence;
    event.time = &time;
    event.job = s->of->record.job;
    event.kind = s->of->kind;
    return ps_registry_save(r, &s->of->record, s->of->has_event ? &event : NULL);
}

static void done(ps_change *change)
{
    stored_change *s = PS_CONTAINER_OF(change, stored_change, change);

    ps_live_stored(s->of, &change->status);
    free(s);
}

void ps_job_store_changed(void *arg, ps_live *job, ps_job_news what)
{
    const ps_job_store *store = arg;
    stored_change *s;

    if (what != PS_JOB_TO_STORE) {
        return;
    }
    s = ps_xcalloc(1, sizeof *s);
    s->of = ps_live_take_change(job);
    s->wall_us = ps_clock_wall_us();
    s->change.apply = apply;
    s->change.done = done;
    s->change.is_relaxed = s->of->is_relaxed;
    s->change.kills = s->of->has_event &&
                      s->of->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE &&
                      store->exit_at == s->of->record.job->state;
    ps_writer_submit(store->writer, &s->change);
}
