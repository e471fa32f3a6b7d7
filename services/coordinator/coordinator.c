/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c - accepts jobs, starts them, and adopts jobs of an earlier process. */
#include "services/coordinator/coordinator.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/job_queue.h"
#include "services/coordinator/node_probe.h"
#include "services/coordinator/startup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLS_MAX = 1000, /* most calls of clients that may wait for one kind of task */
    CHECK_THREADS = 2,
    LOOK_THREADS = 2,
    PACKAGE_THREADS = 3,
    SEND_THREADS = 2,
    FILE_THREADS = 4
};

static const int64_t sweep_us = 1000000, soon_us = 2000;

ps_init_where ps_coordinator_init_where(const ps_coordinator *c)
{
    return (ps_init_where){
        .reader = c->reader, .data_dir = c->conf.data_dir, .data_path = c->conf.data_path};
}

/* --- submission -------------------------------------------------------------- */

static void hash_spec(const Psgd__V1__JobSpec *spec, char hex[PS_CONTENT_HASH_BYTES])
{
    size_t n = psgd__v1__job_spec__get_packed_size(spec);
    uint8_t *bytes = ps_xmalloc(n + 1);

    psgd__v1__job_spec__pack(spec, bytes);
    ps_sha256_of(bytes, n, hex);
    free(bytes);
}

/* A submitted job that is being stored. */
typedef struct submission {
    ps_change change;
    ps_coordinator *c;
    ps_record record;
    char *request_id;
    char content[PS_CONTENT_HASH_BYTES];
    int64_t wall_us;
    uint64_t memory_bytes; /* that its package takes of the coordinator's memory */
    ps_status place;       /* result of ps_submit */
    bool is_known;         /* an earlier call with the same request id made the job */
    char job_id[PS_COORDINATOR_ID_MAX];
    ps_submitted_fn *then;
    void *arg;
} submission;

/* Finds the job that an earlier call with the same request id made. */
static ps_status find_request(submission *s, ps_registry *r)
{
    char known[PS_CONTENT_HASH_BYTES];
    ps_status st = ps_fail(PS_NOT_FOUND, "no request");

    if (s->request_id[0] != '\0') {
        st = ps_registry_find_request(r, s->request_id, s->job_id, sizeof s->job_id, known);
    }
    s->is_known = ps_is_ok(&st);
    if (ps_is_ok(&st) && strcmp(known, s->content) != 0) {
        st = ps_fail(PS_ALREADY_EXISTS, "request_id %s made job %s, which is another",
                     s->request_id, s->job_id);
    }
    return st;
}

static ps_status add_job(ps_change *change, ps_registry *r)
{
    submission *s = PS_CONTAINER_OF(change, submission, change);
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    ps_status st = find_request(s, r);

    if (st.code != PS_NOT_FOUND) {
        return st;
    }
    if (!ps_is_ok(&s->place)) {
        return s->place;
    }
    s->record.sequence = 1;
    st = ps_registry_add(r, &s->record, s->record.job->spec->title, s->request_id, s->content);
    if (!ps_is_ok(&st)) {
        return st;
    }
    time.seconds = s->wall_us / 1000000;
    time.nanos = (int32_t)(s->wall_us % 1000000) * 1000;
    event.sequence = s->record.sequence;
    event.time = &time;
    event.job = s->record.job;
    event.kind = PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE;
    return ps_registry_save(r, &s->record, &event);
}

static void added(ps_change *change)
{
    submission *s = PS_CONTAINER_OF(change, submission, change);
    ps_coordinator *c = s->c;
    ps_live *live;

    c->submitted--;
    if (ps_is_ok(&change->status) && !s->is_known) {
        snprintf(s->job_id, sizeof s->job_id, "%s", s->record.job->id);
        live = ps_live_create(&s->record);
        live->memory_bytes = s->memory_bytes;
        s->record.job = NULL;
        ps_jobs_append(&c->jobs, live);
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", s->job_id)), "QUEUED");
        ps_jobs_publish(&c->jobs, live, PS_JOB_QUEUED);
    }
    s->then(s->arg, &change->status, s->job_id);
    ps_record_fini(&s->record);
    free(s->request_id);
    free(s);
}

void ps_coordinator_submit(ps_coordinator *c, const ps_submit *submit)
{
    submission *s;
    ps_status st;

    st = ps_room_check(&c->room);
    if (ps_is_ok(&st) && c->jobs.count + c->submitted >= PS_LIVE_JOBS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "%d jobs are waiting or running", PS_LIVE_JOBS_MAX);
    }
    if (!ps_is_ok(&st)) {
        submit->then(submit->arg, &st, "");
        return;
    }
    s = ps_xcalloc(1, sizeof *s);
    s->change.apply = add_job;
    s->change.done = added;
    s->change.kills = c->conf.exit_at == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    s->c = c;
    s->wall_us = ps_clock_wall_us();
    s->record.job = ps_job_create(submit->spec, s->wall_us);
    s->record.job->no_queue = submit->no_queue;
    if (c->jobs.queued >= PS_QUEUE_FRONT &&
        !submit->no_queue) { /* a job that may wait is told so at the next look at the queue */
        ps_text_set(&s->record.job->reason, "WAITING_FOR_NODES");
        ps_text_set(&s->record.job->message, PS_QUEUE_BEHIND);
    }
    s->request_id = ps_xstrdup(submit->request_id);
    s->memory_bytes = submit->memory_bytes;
    s->place = submit->place;
    s->then = submit->then;
    s->arg = submit->arg;
    hash_spec(submit->spec, s->content);
    c->submitted++;
    ps_writer_submit(c->writer, &s->change);
}

/* --- timers --------------------------------------------------------------------- */

static void on_soon(ps_event *event, bool ok)
{
    if (ok) {
        ps_queue_look(PS_CONTAINER_OF(event, ps_coordinator, soon.event));
    }
}

void ps_coordinator_schedule(ps_coordinator *c)
{
    if (!c->soon.armed && !c->is_stopping) {
        ps_loop_after(c->loop, &c->soon, soon_us);
    }
}

/* Tries again to store the jobs whose last change could not be stored. */
static void save_again(ps_coordinator *c)
{
    for (ps_live *job = c->jobs.first; job && c->jobs.unsaved > 0; job = job->next) {
        if (job->is_unsaved && job->writes == 0) {
            ps_live_save(job);
        }
    }
}

static void look_at_room(ps_task *task)
{
    ps_room_look(&PS_CONTAINER_OF(task, ps_coordinator, room_task)->room);
}

static void room_seen(ps_task *task)
{
    PS_CONTAINER_OF(task, ps_coordinator, room_task)->is_looking = false;
}

/* Starts a task that looks at the disk, unless one is running: a disk may hang for long. */
static void start_look(ps_coordinator *c)
{
    if (!c->is_looking) {
        c->is_looking = true;
        c->room_task = (ps_task){.run = look_at_room, .done = room_seen};
        ps_tasks_submit(c->tasks, NULL, &c->room_task);
    }
}

static void on_sweep(ps_event *event, bool ok)
{
    ps_coordinator *c = PS_CONTAINER_OF(event, ps_coordinator, sweep.event);

    if (!ok) {
        return;
    }
    ps_nodes_forget(&c->nodes, ps_coordinator_now_us(c));
    ps_reclaims_check(c);
    ps_probe_nodes(c);
    start_look(c);
    save_again(c);
    ps_queue_look(c);
    ps_loop_after(c->loop, &c->sweep, sweep_us);
}

static void on_pulse(ps_event *event, bool ok)
{
    ps_coordinator *c = PS_CONTAINER_OF(event, ps_coordinator, pulse.event);

    if (ok) {
        ps_coordinator_now_us(c);
        ps_loop_after(c->loop, &c->pulse, PS_AWAKE_PULSE_US);
    }
}

int64_t ps_coordinator_now_us(ps_coordinator *c)
{
    return ps_awake_now_us(&c->awake, ps_clock_us());
}

void ps_coordinator_give_memory(ps_coordinator *c, uint64_t bytes)
{
    c->memory_taken -= bytes;
    if (bytes > 0) {
        ps_coordinator_schedule(c);
    }
}

void ps_coordinator_write(ps_coordinator *c, ps_strand *strand, ps_task *task)
{
    if (c->tasks) {
        ps_tasks_submit(c->tasks, strand, task);
        return;
    }
    task->was_run = true;
    task->run(task);
    task->done(task);
}

/* --- life ---------------------------------------------------------------------- */

static ps_status start_threads(ps_coordinator *c)
{
    const struct {
        ps_tasks **out;
        unsigned threads;
    } kinds[] = {{&c->reads, 1},
                 {&c->checks, CHECK_THREADS},
                 {&c->looks, LOOK_THREADS},
                 {&c->packages, PACKAGE_THREADS},
                 {&c->sends, SEND_THREADS},
                 {&c->tasks, FILE_THREADS}};
    ps_status st = ps_registry_open_reader(c->conf.data_dir, c->registry, &c->reader);

    if (ps_is_ok(&st)) {
        st = ps_writer_create(c->loop, c->registry, &c->writer);
        c->store = (ps_job_store){.writer = c->writer, .exit_at = c->conf.exit_at};
    }
    for (size_t i = 0; ps_is_ok(&st) && i < sizeof kinds / sizeof kinds[0]; i++) {
        st = ps_tasks_create(c->loop, kinds[i].threads, CALLS_MAX, kinds[i].out);
    }
    return st;
}

static void stop_threads(ps_coordinator *c)
{
    ps_tasks **const kinds[] = {&c->tasks, &c->sends,  &c->packages,
                                &c->looks, &c->checks, &c->reads};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ps_tasks_destroy(*kinds[i]);
        *kinds[i] = NULL;
    }
    ps_writer_destroy(c->writer);
    c->writer = c->store.writer = NULL;
    c->jobs.is_closed = true;
}

/* Registers the observers of jobs, in the order in which they are told. */
static void observe(ps_coordinator *c)
{
    ps_jobs_observe(&c->jobs, ps_job_store_changed, &c->store);
    ps_jobs_observe(&c->jobs, ps_job_log_changed, NULL);
    ps_jobs_observe(&c->jobs, ps_watchers_changed, c);
    ps_jobs_observe(&c->jobs, ps_reclaims_changed, c);
    ps_jobs_observe(&c->jobs, ps_queue_changed, c);
}

/* Writes the path of the file that a process leaves when it ends in order. */
static void name_stopped(const ps_coordinator *c, char *path, size_t cap)
{
    snprintf(path, cap, "%s/stopped", c->conf.data_dir);
}

/* Returns whether the earlier process ended in order. Removes the file at once, because this
 * process may crash later. */
static bool take_stopped(const ps_coordinator *c)
{
    char path[900];

    name_stopped(c, path, sizeof path);
    return unlink(path) == 0;
}

static void leave_stopped(const ps_coordinator *c)
{
    char path[900];
    ps_status st;

    name_stopped(c, path, sizeof path);
    st = ps_file_write(path, "", 0);
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "main", "%s; jobs that were being started count as interrupted",
               st.text);
    }
}

ps_status ps_coordinator_create(ps_loop *loop, const ps_coordinator_conf *conf,
                                ps_coordinator **out)
{
    ps_coordinator *c = ps_xcalloc(1, sizeof *c);
    ps_status st;

    c->loop = loop;
    c->conf = *conf;
    c->start_wall_us = ps_clock_wall_us();
    ps_awake_init(&c->awake, ps_clock_us());
    c->sweep.event.fire = on_sweep;
    c->soon.event.fire = on_soon;
    c->pulse.event.fire = on_pulse;
    ps_jobs_init(&c->jobs, ps_clock_us);
    observe(c);
    ps_nodes_init(&c->nodes, conf->heartbeat_us, conf->lease_us);
    ps_room_init(&c->room, conf->data_dir, conf->min_free_bytes);
    st = ps_registry_open(conf->data_dir, &c->registry);
    if (ps_is_ok(&st)) {
        c->was_stopped = take_stopped(c);
        st = ps_startup(c);
    }
    if (ps_is_ok(&st)) {
        st = start_threads(c);
    }
    if (!ps_is_ok(&st)) {
        ps_coordinator_destroy(c);
        return st;
    }
    *out = c;
    return ps_ok();
}

void ps_coordinator_open(ps_coordinator *c, const char *address)
{
    ps_live *next;

    snprintf(c->address, sizeof c->address, "%s", address);
    c->is_open = true;
    for (ps_live *job = c->jobs.first; job; job = next) {
        next = job->next;
        if (job->record.job->state == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
            continue;
        }
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", job->record.job->id)),
                    "taken up again in %s", ps_state_name(job->record.job->state));
        ps_attempt_adopt(c, job);
    }
    ps_loop_after(c->loop, &c->sweep, 0);
    ps_loop_after(c->loop, &c->pulse, PS_AWAKE_PULSE_US);
}

void ps_coordinator_drain(ps_coordinator *c)
{
    c->is_stopping = true;
    ps_loop_cancel(c->loop, &c->sweep);
    ps_loop_cancel(c->loop, &c->pulse);
    ps_loop_cancel(c->loop, &c->soon);
    ps_watchers_end(c);
    ps_reclaims_end(c);
    ps_probes_end(c);
    while (c->jobs.active) {
        ps_attempt_drop(c->jobs.active->attempt);
    }
}

void ps_coordinator_stop(ps_coordinator *c)
{
    stop_threads(c);
    leave_stopped(c);
}

void ps_coordinator_destroy(ps_coordinator *c)
{
    if (!c) {
        return;
    }
    assert(c->attempts == 0); /* an attempt's calls use the coordinator */
    stop_threads(c);
    ps_jobs_fini(&c->jobs);
    ps_nodes_fini(&c->nodes);
    ps_room_fini(&c->room);
    ps_registry_close(c->reader);
    ps_registry_close(c->registry);
    free(c);
}
