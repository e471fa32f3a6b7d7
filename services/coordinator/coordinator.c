/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c - jobs that are not over: taken in, started, taken up again. */
#include "services/coordinator/coordinator.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/domain/scheduler.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/recover.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READS_MAX = 1000, /* questions of clients that may wait for the registry */
    TASK_THREADS = 4,
    TASKS_MAX = 1000,      /* of clients that may wait for other files */
    NEWS_MAX = 50,         /* queued jobs told in one round what they wait for */
    UNKNOWN_NAMES_MAX = 10 /* folders of unknown jobs named in the log */
};

/* What to do about a registry that is not the right one. */
#define ADVICE                                                                                     \
    "Stop the coordinator, and restore the right jobs.db or run psgd-coordinator --recover, "      \
    "which "                                                                                       \
    "reads jobs from their files"

static const int64_t sweep_us = 1000000, soon_us = 2000, pulse_us = 100000;

static uint32_t bit(Psgd__V1__JobState state)
{
    return 1u << (unsigned)state;
}

ps_init_where ps_coordinator_init_where(const ps_coordinator *c)
{
    return (ps_init_where){
        .reader = c->reader, .data_dir = c->conf.data_dir, .data_path = c->conf.data_path};
}

ps_live *ps_coordinator_find(ps_coordinator *c, const char *job_id)
{
    for (ps_live *job = c->first; job; job = job->next) {
        if (strcmp(job->record.job->id, job_id) == 0) {
            return job;
        }
    }
    return NULL;
}

static void append(ps_coordinator *c, ps_live *job)
{
    job->prev = c->last;
    *(c->last ? &c->last->next : &c->first) = job;
    c->last = job;
    c->live_count++;
}

static void prepend(ps_coordinator *c, ps_live *job)
{
    job->next = c->first;
    *(c->first ? &c->first->prev : &c->last) = job;
    c->first = job;
    c->live_count++;
}

static void take_out(ps_coordinator *c, ps_live *job)
{
    *(job->prev ? &job->prev->next : &c->first) = job->next;
    *(job->next ? &job->next->prev : &c->last) = job->prev;
    c->live_count--;
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

/* A job on its way into the registry. */
typedef struct submission {
    ps_change change;
    ps_coordinator *c;
    ps_record record;
    char *request_id;
    char content[PS_CONTENT_HASH_BYTES];
    int64_t wall_us;
    bool is_known; /* the request has made job_id before */
    char job_id[PS_COORDINATOR_ID_MAX];
    ps_submitted_fn *then;
    void *arg;
} submission;

/* Finds the job that the same request has made. */
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

    c->live_count--; /* append counts it again */
    if (ps_is_ok(&change->status) && !s->is_known) {
        snprintf(s->job_id, sizeof s->job_id, "%s", s->record.job->id);
        append(c, ps_live_create(c, &s->record));
        s->record.job = NULL;
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", s->job_id)), "QUEUED");
        ps_coordinator_schedule(c);
    }
    s->then(s->arg, &change->status, s->job_id);
    ps_record_fini(&s->record);
    free(s->request_id);
    free(s);
}

void ps_coordinator_submit(ps_coordinator *c, const Psgd__V1__JobSpec *spec, const char *request_id,
                           ps_submitted_fn *then, void *arg)
{
    submission *s;
    ps_status st;

    ps_room_look(&c->room);
    st = ps_room_check(&c->room);
    if (ps_is_ok(&st) && c->live_count >= PS_LIVE_JOBS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "%d jobs are waiting or running", PS_LIVE_JOBS_MAX);
    }
    if (!ps_is_ok(&st)) {
        then(arg, &st, "");
        return;
    }
    s = ps_xcalloc(1, sizeof *s);
    s->change.apply = add_job;
    s->change.done = added;
    s->change.kills = c->conf.exit_at == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    s->c = c;
    s->wall_us = ps_clock_wall_us();
    s->record.job = ps_job_create(spec, s->wall_us);
    s->request_id = ps_xstrdup(request_id);
    s->then = then;
    s->arg = arg;
    hash_spec(spec, s->content);
    c->live_count++;
    ps_writer_submit(c->writer, &s->change);
}

/* --- the queue ---------------------------------------------------------------- */

/* Addresses that jobs have, registered or not, each with its job. */
static const char **held_addresses(const ps_coordinator *c)
{
    size_t count = 0, at = 0;
    const char **held;

    for (const ps_live *job = c->first; job; job = job->next) {
        count += job->attempt ? ps_attempt_count(job->attempt) : 0;
    }
    held = ps_xcalloc(2 * count + 1, sizeof *held);
    for (const ps_live *job = c->first; job; job = job->next) {
        for (size_t i = 0; job->attempt && i < ps_attempt_count(job->attempt); i++) {
            held[at++] = ps_attempt_member(job->attempt, i)->address;
            held[at++] = job->record.job->id;
        }
    }
    return held;
}

/* Starts the job, or tells what it waits for as long as there are *news to tell. */
static void try_start(ps_coordinator *c, ps_live *job, unsigned *news)
{
    const Psgd__V1__JobSpec *spec = job->record.job->spec;
    size_t count = (size_t)ps_schedule_processes(spec) + spec->pservers;
    ps_member *members = ps_xcalloc(count, sizeof *members);
    const char **held = held_addresses(c);
    int64_t now_us = ps_loop_now_us(c->loop);
    char message[PS_COMMIT_MESSAGE_MAX];
    bool fits = ps_schedule_job(&c->nodes, spec, held, now_us, members, message, sizeof message);
    ps_status room = ps_room_check(&c->room);

    free(held);
    if (!ps_is_ok(&room)) {
        snprintf(message, sizeof message, "%s", room.text);
        fits = false;
    }
    if (fits) {
        ps_attempt_start(job, members, count);
    } else if (*news > 0 && job->writes == 0 &&
               (now_us - job->told_us >= sweep_us || job->told_us == 0)) {
        job->told_us = now_us; /* not at every beat of every node: each change is a write */
        *news -= ps_live_set_waiting(
                     job, ps_is_ok(&room) ? "WAITING_FOR_NODES" : "WAITING_FOR_ROOM", message)
                     ? 1
                     : 0;
    }
    free(members);
}

static void schedule_now(ps_coordinator *c)
{
    unsigned news = NEWS_MAX;
    ps_live *next;

    if (!c->is_open || c->is_stopping) {
        return;
    }
    for (ps_live *job = c->first; job; job = next) {
        next = job->next;
        if (!job->attempt && job->decisions == 0) {
            try_start(c, job, &news);
        }
    }
}

static void on_soon(ps_event *event, bool ok)
{
    if (ok) {
        schedule_now(PS_CONTAINER_OF(event, ps_coordinator, soon.event));
    }
}

void ps_coordinator_schedule(ps_coordinator *c)
{
    if (!c->soon.armed && !c->is_stopping) {
        ps_loop_after(c->loop, &c->soon, soon_us);
    }
}

/* What could not be stored when it changed. */
static void save_again(ps_coordinator *c)
{
    for (ps_live *job = c->first; job; job = job->next) {
        if (job->is_unsaved && job->writes == 0) {
            ps_live_save(job);
        }
    }
}

static void on_sweep(ps_event *event, bool ok)
{
    ps_coordinator *c = PS_CONTAINER_OF(event, ps_coordinator, sweep.event);

    if (!ok) {
        return;
    }
    ps_nodes_forget(&c->nodes, ps_loop_now_us(c->loop));
    ps_room_look(&c->room);
    save_again(c);
    schedule_now(c);
    ps_loop_after(c->loop, &c->sweep, sweep_us);
}

static void on_pulse(ps_event *event, bool ok)
{
    ps_coordinator *c = PS_CONTAINER_OF(event, ps_coordinator, pulse.event);

    if (ok) {
        ps_loop_after(c->loop, &c->pulse, pulse_us);
    }
}

void ps_coordinator_job_over(ps_coordinator *c, ps_live *job)
{
    if (ps_state_is_final(job->record.job->state)) {
        uint64_t number = job->record.number;

        take_out(c, job);
        ps_live_destroy(job);
        ps_coordinator_wake_watchers(c, number);
    }
    ps_coordinator_schedule(c);
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

void ps_coordinator_wake_watchers(ps_coordinator *c, uint64_t number)
{
    ps_watchers_wake(c, number);
    ps_reclaims_wake(c, number);
}

/* --- life ---------------------------------------------------------------------- */

static bool take_up(void *arg, ps_record *record)
{
    ps_coordinator *c = arg;

    if (record->is_damaged) {
        ps_record_fini(record); /* nobody can say what it was */
        return true;
    }
    prepend(c, ps_live_create(c, record)); /* newest first: so this keeps the order */
    return true;
}

static ps_status load_jobs(ps_coordinator *c)
{
    uint32_t states =
        ~(bit(PSGD__V1__JOB_STATE__JOB_STATE_DONE) | bit(PSGD__V1__JOB_STATE__JOB_STATE_FAILED) |
          bit(PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED));

    return ps_registry_each(c->registry, 0, states, take_up, c);
}

/* Ends a job that the registry has as not over though its folder has the files of its end: the
 * registry is older than they are. To run it again would write over them. */
static void take_end(ps_coordinator *c, ps_live *job)
{
    const char *id = job->record.job->id;
    ps_record record = {0};
    ps_status st = ps_recover_read(c->conf.data_dir, id, &record);

    if (st.code == PS_NOT_FOUND) {
        return;
    }
    if (ps_is_ok(&st)) {
        st = ps_registry_put(c->registry, &record, ps_clock_wall_us());
    }
    if (ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "registry",
               "job %s is %s in jobs.db, but %s by its files: taken from them", id,
               ps_state_name(job->record.job->state), ps_state_name(record.job->state));
        take_out(c, job);
        ps_live_destroy(job);
    } else {
        ps_log(PS_LOG_ERROR, "registry", "job %s: %s", id, st.text);
    }
    ps_record_fini(&record);
}

static void take_ends(ps_coordinator *c)
{
    ps_live *next;

    if (ps_registry_database(c->registry)->news == PS_DATABASE_AS_BEFORE) {
        return;
    }
    for (ps_live *job = c->first; job; job = next) {
        next = job->next;
        take_end(c, job);
    }
}

static bool has_folder(void *arg, const char *job_id)
{
    const ps_coordinator *c = arg;

    return ps_artifacts_exist(c->conf.data_dir, job_id);
}

/* Looks below the data directory for what a crash has left. */
typedef struct sweep {
    ps_coordinator *c;
    size_t unknown;  /* folders of jobs that the registry does not know */
    ps_strbuf names; /* of the first of them */
} sweep;

static ps_known is_known(void *arg, const char *job_id)
{
    const sweep *s = arg;
    ps_record record = {0};
    ps_status st = ps_registry_load(s->c->registry, job_id, &record);

    ps_record_fini(&record);
    return ps_is_ok(&st) ? PS_JOB_KNOWN : st.code == PS_NOT_FOUND ? PS_JOB_UNKNOWN : PS_JOB_UNSURE;
}

static void note_unknown(void *arg, const char *job_id)
{
    sweep *s = arg;

    if (s->unknown++ < UNKNOWN_NAMES_MAX) {
        ps_strbuf_printf(&s->names, "%s%s", s->unknown > 1 ? ", " : "", job_id);
    }
}

static void sweep_files(ps_coordinator *c)
{
    sweep s = {.c = c};

    ps_artifacts_sweep(c->conf.data_dir, is_known, note_unknown, &s);
    if (s.unknown > 0) {
        ps_log_with(PS_LOG_WARN, "registry", PS_LOG_FIELDS(PS_LOG_NUM("folders", s.unknown)),
                    "jobs.db does not know %zu job folders below %s/jobs: %s%s. They are kept. %s",
                    s.unknown, c->conf.data_dir, ps_strbuf_text(&s.names),
                    s.unknown > UNKNOWN_NAMES_MAX ? ", ..." : "", ADVICE);
    }
    ps_strbuf_fini(&s.names);
}

/* Says what is different about the database, and what to do. */
static void tell_news(const ps_coordinator *c)
{
    const ps_database *d = ps_registry_database(c->registry);
    char what[400];

    switch (d->news) {
    case PS_DATABASE_AS_BEFORE:
        return;
    case PS_DATABASE_EMPTY:
        snprintf(what, sizeof what,
                 "it is new and empty; the one before was made %s and had %llu changes",
                 d->before.created, (unsigned long long)d->before.changes);
        break;
    case PS_DATABASE_OTHER:
        snprintf(what, sizeof what, "it is %s, made %s; the one before was %s, made %s",
                 d->stamp.id, d->stamp.created, d->before.id, d->before.created);
        break;
    case PS_DATABASE_OLDER:
        snprintf(what, sizeof what,
                 "it is older than when it was last used: it has %llu changes of %llu",
                 (unsigned long long)d->stamp.changes, (unsigned long long)d->before.changes);
        break;
    }
    ps_log(PS_LOG_WARN, "registry",
           "jobs.db is not as %s was last used with it: %s. No file of a job is removed. %s",
           c->conf.data_dir, what, ADVICE);
}

static ps_status start_threads(ps_coordinator *c)
{
    ps_status st = ps_registry_open_reader(c->conf.data_dir, c->registry, &c->reader);

    if (ps_is_ok(&st)) {
        st = ps_writer_create(c->loop, c->registry, &c->writer);
    }
    if (ps_is_ok(&st)) {
        st = ps_tasks_create(c->loop, 1, READS_MAX, &c->reads);
    }
    return ps_is_ok(&st) ? ps_tasks_create(c->loop, TASK_THREADS, TASKS_MAX, &c->tasks) : st;
}

static void stop_threads(ps_coordinator *c)
{
    ps_tasks_destroy(c->tasks);
    ps_tasks_destroy(c->reads);
    ps_writer_destroy(c->writer);
    c->tasks = c->reads = NULL;
    c->writer = NULL;
}

ps_status ps_coordinator_create(ps_loop *loop, const ps_coordinator_conf *conf,
                                ps_coordinator **out)
{
    ps_coordinator *c = ps_xcalloc(1, sizeof *c);
    ps_status st;

    c->loop = loop;
    c->conf = *conf;
    c->start_wall_us = ps_clock_wall_us();
    c->sweep.event.fire = on_sweep;
    c->soon.event.fire = on_soon;
    c->pulse.event.fire = on_pulse;
    ps_nodes_init(&c->nodes, conf->heartbeat_us, conf->lease_us);
    ps_room_init(&c->room, conf->data_dir, conf->min_free_bytes);
    st = ps_registry_open(conf->data_dir, &c->registry);
    if (ps_is_ok(&st)) {
        tell_news(c);
        st = load_jobs(c);
    }
    if (ps_is_ok(&st)) {
        take_ends(c);
        ps_registry_avoid(c->registry, has_folder, c);
        sweep_files(c);
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
    for (ps_live *job = c->first; job; job = next) {
        next = job->next;
        if (job->record.job->state == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
            continue;
        }
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", job->record.job->id)),
                    "taken up again in %s", ps_state_name(job->record.job->state));
        ps_attempt_adopt(job);
    }
    ps_loop_after(c->loop, &c->sweep, 0);
    ps_loop_after(c->loop, &c->pulse, pulse_us);
}

void ps_coordinator_drain(ps_coordinator *c)
{
    c->is_stopping = true;
    ps_loop_cancel(c->loop, &c->sweep);
    ps_loop_cancel(c->loop, &c->pulse);
    ps_loop_cancel(c->loop, &c->soon);
    ps_watchers_end(c);
    ps_reclaims_end(c);
    for (ps_live *job = c->first; job; job = job->next) {
        if (job->attempt) {
            ps_attempt_drop(job->attempt);
        }
    }
}

void ps_coordinator_stop(ps_coordinator *c)
{
    stop_threads(c);
}

void ps_coordinator_destroy(ps_coordinator *c)
{
    if (!c) {
        return;
    }
    while (c->first) {
        ps_live *job = c->first;

        take_out(c, job);
        ps_live_destroy(job);
    }
    stop_threads(c);
    ps_nodes_fini(&c->nodes);
    ps_registry_close(c->reader);
    ps_registry_close(c->registry);
    free(c);
}
