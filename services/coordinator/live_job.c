/* SPDX-License-Identifier: Apache-2.0 */
/* live_job.c - a job that is not over: its record, its events, and their way to the registry. */
#include "services/coordinator/live_job.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "services/coordinator/coordinator.h"
#include "services/coordinator/domain/job_message.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Progress events are not stored, but their numbers must not come twice after a crash: so many
     * are put aside at a time, and the next when half of them are left. */
    SEQUENCE_BATCH = 1000,
    EVENTS_MAX = 64, /* of one job that wait for the disk; more are shown, but not stored */
    PROGRESS_US = 250000
};

/* A change of a job on its way to the registry. */
typedef struct job_change {
    ps_change change;
    ps_live *job;
    ps_record record; /* as it is stored: a copy */
    bool has_event;
    uint64_t sequence; /* of the event */
    int64_t wall_us;
    Psgd__V1__JobEventKind kind;
    ps_live_stored_fn *then; /* of ps_live_store; else NULL */
    void *arg;
} job_change;

ps_live *ps_live_create(ps_coordinator *c, const ps_record *record)
{
    ps_live *job = ps_xcalloc(1, sizeof *job);

    job->c = c;
    job->record = *record;
    job->sequence = job->stored_sequence = job->reserved = record->sequence;
    return job;
}

void ps_live_destroy(ps_live *job)
{
    job->is_over = true;
    if (job->writes == 0) {
        ps_record_fini(&job->record);
        free(job);
    }
}

/* What is not stored is said once, not at every try. */
static void note(ps_live *job, const ps_status *st)
{
    bool was_unsaved = job->is_unsaved;

    job->is_unsaved = !ps_is_ok(st);
    if (job->is_unsaved && !was_unsaved) {
        ps_log_with(PS_LOG_ERROR, "registry", PS_LOG_FIELDS(PS_LOG_STR("job", job->record.job->id)),
                    "a change is not stored, it is tried again: %s", st->text);
    } else if (was_unsaved && !job->is_unsaved) {
        ps_log_with(PS_LOG_INFO, "registry", PS_LOG_FIELDS(PS_LOG_STR("job", job->record.job->id)),
                    "changes are stored again");
    }
}

static void give_number(ps_live *job)
{
    job->sequence++;
    if (job->sequence > job->record.sequence) {
        job->record.sequence = job->sequence + SEQUENCE_BATCH;
    }
}

/* To the watchers, as progress: nothing is stored. */
static void show(ps_live *job)
{
    give_number(job);
    job->progress_sequence = job->sequence;
    job->progress_us = ps_clock_us();
    ps_coordinator_wake_watchers(job->c, job->record.number);
}

static void set(ps_live *job, Psgd__V1__JobState state, const char *reason, const char *message)
{
    job->record.job->state = state;
    ps_text_set(&job->record.job->reason, reason);
    ps_text_set(&job->record.job->message, message);
}

static void log_state(const ps_live *job, Psgd__V1__JobState state, const char *reason,
                      const char *message)
{
    const Psgd__V1__Job *msg = job->record.job;

    if (msg->state == state) {
        return;
    }
    ps_log_with(state == PSGD__V1__JOB_STATE__JOB_STATE_FAILED ? PS_LOG_WARN : PS_LOG_INFO, "job",
                ((const ps_log_field[]){PS_LOG_STR("job", msg->id),
                                        PS_LOG_NUM("attempt", msg->attempt),
                                        PS_LOG_STR(reason[0] ? "reason" : NULL, reason),
                                        {.key = NULL}}),
                "%s%s%s", ps_state_name(state), message[0] ? ": " : "", message);
}

/* --- changes on their way ------------------------------------------------------- */

static ps_status apply(ps_change *change, ps_registry *r)
{
    const job_change *ch = PS_CONTAINER_OF(change, job_change, change);
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

    time.seconds = ch->wall_us / 1000000;
    time.nanos = (int32_t)(ch->wall_us % 1000000) * 1000;
    event.sequence = ch->sequence;
    event.time = &time;
    event.job = ch->record.job;
    event.kind = ch->kind;
    return ps_registry_save(r, &ch->record, ch->has_event ? &event : NULL);
}

static void take_decision(ps_live *job, const job_change *ch)
{
    const Psgd__V1__Job *msg = ch->record.job;

    log_state(job, msg->state, msg->reason, msg->message);
    set(job, msg->state, msg->reason, msg->message);
    job->record.outcome = ch->record.outcome;
    note(job, &ch->change.status);
}

static void stored(ps_change *change)
{
    job_change *ch = PS_CONTAINER_OF(change, job_change, change);
    ps_live *job = ch->job;
    bool is_ok = ps_is_ok(&change->status);

    job->events -= ch->has_event;
    job->decisions -= ch->then != NULL;
    if (is_ok) {
        job->reserved = ch->record.sequence;
        job->stored_sequence = ch->has_event ? ch->sequence : job->stored_sequence;
    }
    if (!ch->then) {
        note(job, &change->status);
    } else if (is_ok) {
        take_decision(job, ch);
    }
    if (is_ok && ch->has_event) {
        ps_coordinator_wake_watchers(job->c, job->record.number);
    } else if (!is_ok && ch->has_event && !ch->then) {
        show(job);
    }
    if (job->decisions == 0 && job->later != 0 && !job->is_over && job->c->writer) {
        Psgd__V1__JobEventKind kind = job->later;

        job->later = 0;
        ps_live_publish(job, kind);
    }
    if (ch->then) {
        ch->then(ch->arg, &change->status);
    }
    ps_record_fini(&ch->record);
    free(ch);
    job->writes--;
    if (job->is_over) {
        ps_live_destroy(job);
    }
}

/* Hands the job to the writer as `shown`, which may be about to become its message. */
static job_change *change_to(ps_live *job, const Psgd__V1__Job *shown)
{
    job_change *ch = ps_xcalloc(1, sizeof *ch);

    ch->change.apply = apply;
    ch->change.done = stored;
    ch->job = job;
    ch->record = job->record;
    ch->record.job = (Psgd__V1__Job *)ps_message_copy(&shown->base);
    job->writes++;
    return ch;
}

static void add_event(job_change *ch, Psgd__V1__JobEventKind kind)
{
    ps_live *job = ch->job;

    give_number(job);
    job->progress_sequence = 0; /* superseded: this one is newer */
    job->events++;
    ch->has_event = true;
    ch->sequence = job->sequence;
    ch->record.sequence = job->record.sequence;
    ch->wall_us = ps_clock_wall_us();
    ch->kind = kind;
    ch->change.kills = kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE &&
                       job->c->conf.exit_at == ch->record.job->state;
}

static void publish(ps_live *job, Psgd__V1__JobEventKind kind, bool is_relaxed)
{
    job_change *ch;

    if (job->decisions > 0) {
        job->later = kind; /* behind the decision, which changes what is shown */
        return;
    }
    if (job->events >= EVENTS_MAX && kind != PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE) {
        show(job);
        return;
    }
    ch = change_to(job, job->record.job);
    add_event(ch, kind);
    ch->change.is_relaxed = is_relaxed;
    ps_writer_submit(job->c->writer, &ch->change);
}

void ps_live_save(ps_live *job)
{
    ps_writer_submit(job->c->writer, &change_to(job, job->record.job)->change);
}

void ps_live_publish(ps_live *job, Psgd__V1__JobEventKind kind)
{
    publish(job, kind, false);
}

void ps_live_progress(ps_live *job, int64_t now_us)
{
    if (now_us - job->progress_us < PROGRESS_US) {
        return;
    }
    job->progress_us = now_us;
    give_number(job);
    if (job->sequence + SEQUENCE_BATCH / 2 > job->reserved && job->writes == 0) {
        job->record.sequence = job->sequence + SEQUENCE_BATCH;
        ps_live_save(job);
    }
    job->progress_sequence = job->sequence;
    ps_coordinator_wake_watchers(job->c, job->record.number);
}

static bool is_shown(const ps_live *job, Psgd__V1__JobState state, const char *reason,
                     const char *message)
{
    const Psgd__V1__Job *msg = job->record.job;

    return msg->state == state && strcmp(msg->reason, reason) == 0 &&
           strcmp(msg->message, message) == 0;
}

static void set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                      const char *message, bool is_relaxed)
{
    if (is_shown(job, state, reason, message)) {
        return;
    }
    log_state(job, state, reason, message);
    set(job, state, reason, message);
    publish(job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE, is_relaxed);
}

void ps_live_set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                       const char *message)
{
    set_state(job, state, reason, message, false);
}

void ps_live_store(ps_live *job, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                   const char *reason, const char *message, ps_live_stored_fn *then, void *arg)
{
    Psgd__V1__Job shown = *job->record.job;
    job_change *ch;

    shown.state = state;
    shown.reason = (char *)reason;
    shown.message = (char *)message;
    ch = change_to(job, &shown);
    ch->record.outcome = outcome;
    ch->then = then;
    ch->arg = arg;
    job->decisions++;
    if (!is_shown(job, state, reason, message)) {
        add_event(ch, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE);
    }
    ps_writer_submit(job->c->writer, &ch->change);
}

void ps_live_tell(ps_live *job, const char *reason, const char *message)
{
    if (!is_shown(job, job->record.job->state, reason, message)) {
        set(job, job->record.job->state, reason, message);
        show(job);
    }
}

bool ps_live_set_waiting(ps_live *job, const char *reason, const char *message)
{
    const Psgd__V1__JobState queued = PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    bool is_news = !is_shown(job, queued, reason, message);

    set_state(job, queued, reason, message, true);
    return is_news;
}
