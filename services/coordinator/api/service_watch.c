/* SPDX-License-Identifier: Apache-2.0 */
/* service_watch.c - WatchJob: sends a job's events as a stream.
 *
 * A watcher is a cursor, not a queue. It reads the next stored event when the one before was sent;
 * of progress events only the newest exists. So a slow client costs no memory. It misses only
 * superseded progress, and events that the registry has dropped meanwhile (PS_REGISTRY_EVENTS_MAX).
 * A progress event waits for events with lower numbers that are still being stored.
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/linked.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WATCHERS_MAX = 1000, WATCHERS_OF_CLIENT_MAX = 250 };

struct ps_watcher {
    ps_coordinator *c;
    ps_call *call;
    char client[PS_CLIENT_HOST_MAX];
    ps_principal caller;
    char job_id[PS_COORDINATOR_ID_MAX];
    uint64_t number; /* number of the job; 0: not read yet */
    uint64_t cursor; /* number of the last event that was sent or skipped */
    ps_task task;    /* reads the next event */
    bool is_reading; /* the task is running */
    bool is_gone;    /* the call has ended; this is freed when the task is done */
    bool was_over;   /* the job was over when the task began */
    /* number of the job's last stored event when the task began; 0: the job was over */
    uint64_t stored;
    /* The next stored event. NULL: no readable event after `cursor` is stored. While is_reading is
     * set, only `task` uses it. */
    Psgd__V1__WatchJobResponse *event;
    ps_status status; /* result of the reading; while is_reading is set, only `task` uses it */
    ps_watcher *prev, *next;
};

static void pump(ps_watcher *w);

static void forget(ps_watcher *w)
{
    PS_UNLINK(w->c->watchers, w);
    w->is_gone = true;
    if (!w->is_reading) {
        free(w);
    }
}

static void on_gone(void *arg, ps_call *call)
{
    (void)call;
    forget(arg);
}

static void on_sent(void *arg, ps_call *call)
{
    (void)call;
    pump(arg);
}

static void send(ps_watcher *w, const Psgd__V1__WatchJobResponse *event)
{
    w->cursor = event->sequence;
    ps_call_send(w->call, &event->base, NULL, 0, on_sent, w);
}

static void send_progress(ps_watcher *w, const ps_live *live)
{
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Psgd__V1__Job job = *live->record.job;
    int64_t wall_us = ps_clock_wall_us() - (ps_clock_us() - live->progress_us);

    job.spec = NULL;
    job.n_artifacts = 0;
    time.seconds = wall_us / 1000000;
    time.nanos = (int32_t)(wall_us % 1000000) * 1000;
    event.sequence = live->progress_sequence;
    event.time = &time;
    event.job = &job;
    event.kind = PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_PROGRESS;
    send(w, &event);
}

static void read_event(ps_task *task)
{
    ps_watcher *w = PS_CONTAINER_OF(task, ps_watcher, task);
    ps_record record = {0};

    if (w->number == 0) {
        w->status = ps_registry_load(w->c->reader, w->job_id, &record);
        if (ps_is_ok(&w->status)) {
            w->number = record.number;
            w->status = ps_access_check(&w->caller, record.job, PS_ACCESS_SEE);
        }
        ps_record_fini(&record);
    }
    if (ps_is_ok(&w->status)) {
        w->status = ps_registry_next_event(w->c->reader, w->number, w->cursor, &w->event);
    }
}

static void take_event(ps_watcher *w)
{
    Psgd__V1__WatchJobResponse *event = w->event;

    w->event = NULL;
    if (!ps_is_ok(&w->status)) {
        ps_refuse_status(w->call, &w->status, w->job_id);
        forget(w);
    } else if (event) {
        send(w, event);
    } else if (w->was_over) {
        ps_call_finish(w->call);
        forget(w);
    } else {
        /* There is no readable event after the cursor, so those up to `stored` are damaged: skips
         * them. */
        w->cursor = w->stored > w->cursor ? w->stored : w->cursor;
        pump(w);
    }
    if (event) {
        psgd__v1__watch_job_response__free_unpacked(event, NULL);
    }
}

static void event_read(ps_task *task)
{
    ps_watcher *w = PS_CONTAINER_OF(task, ps_watcher, task);

    w->is_reading = false;
    if (!w->is_gone) {
        take_event(w);
        return;
    }
    if (w->event) {
        psgd__v1__watch_job_response__free_unpacked(w->event, NULL);
    }
    free(w);
}

static void start_reading(ps_watcher *w, const ps_live *live)
{
    w->is_reading = true;
    w->was_over = live == NULL;
    w->stored = live ? live->stored_sequence : 0;
    w->status = ps_ok();
    w->task.run = read_event;
    w->task.done = event_read;
    ps_tasks_submit(w->c->reads, NULL, &w->task);
}

static void pump(ps_watcher *w)
{
    const ps_live *live = ps_jobs_find(&w->c->jobs, w->job_id);

    if (w->is_reading || !ps_call_can_send(w->call)) {
        return;
    }
    if (!live || live->stored_sequence > w->cursor) {
        start_reading(w, live);
    } else if (live->events == 0 && live->progress_sequence > w->cursor) {
        send_progress(w, live);
    }
}

/* Refuses the call and returns false if the coordinator stops, or if there are too many watchers in
 * all or of the client's address. */
static bool may_watch(const ps_coordinator *c, ps_call *call, const char *job_id)
{
    char client[PS_CLIENT_HOST_MAX];
    size_t count = 0, of_client = 0;

    ps_client_host(call, client);
    for (const ps_watcher *w = c->watchers; w; w = w->next) {
        count++;
        of_client += strcmp(w->client, client) == 0;
    }
    if (c->is_stopping) {
        ps_refuse(call, PS_UNAVAILABLE, NULL, job_id, "the coordinator is stopping");
        return false;
    }
    if (count >= WATCHERS_MAX || of_client >= WATCHERS_OF_CLIENT_MAX) {
        ps_refuse(call, PS_RESOURCE_EXHAUSTED, NULL, job_id,
                  "%zu watchers, %zu of %s; %d and %d are allowed", count, of_client, client,
                  WATCHERS_MAX, WATCHERS_OF_CLIENT_MAX);
        return false;
    }
    return true;
}

void ps_serve_watch_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__WatchJobRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    ps_watcher *w;

    (void)payload;
    if (!may_watch(c, call, q->job_id) ||
        (live && !ps_may_access(call, live->record.job, PS_ACCESS_SEE))) {
        return;
    }
    w = ps_xcalloc(1, sizeof *w);
    w->c = c;
    w->call = call;
    w->caller = *ps_call_caller(call);
    w->number = live ? live->record.number : 0;
    w->cursor = q->after_sequence;
    ps_client_host(call, w->client);
    snprintf(w->job_id, sizeof w->job_id, "%.*s", PS_COORDINATOR_ID_MAX - 1, q->job_id);
    PS_LINK_FIRST(c->watchers, w);
    ps_call_on_gone(call, on_gone, w);
    pump(w);
}

void ps_watchers_changed(void *arg, ps_live *job, ps_job_news what)
{
    const ps_coordinator *c = arg;
    ps_watcher *next;

    if (what != PS_JOB_EVENT && what != PS_JOB_OVER) {
        return;
    }
    for (ps_watcher *w = c->watchers; w; w = next) {
        next = w->next;
        if (w->number == job->record.number) {
            pump(w);
        }
    }
}

void ps_watchers_end(ps_coordinator *c)
{
    while (c->watchers) {
        ps_watcher *w = c->watchers;

        ps_refuse(w->call, PS_UNAVAILABLE, "STOPPING", w->job_id,
                  "the coordinator is stopping; watch again from sequence %llu",
                  (unsigned long long)w->cursor);
        forget(w);
    }
}
