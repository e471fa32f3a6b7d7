/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - a job that is not over: its record and its events. */
#include "services/coordinator/job.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "services/coordinator/coordinator.h"
#include "services/coordinator/message.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Progress events are not stored, but their numbers must not come twice
     * after a crash: so many are put aside at a time. */
    SEQUENCE_BATCH = 1000,
    PROGRESS_US = 250000
};

ps_live *ps_live_create(ps_coordinator *c, const ps_record *record)
{
    ps_live *job = ps_xcalloc(1, sizeof *job);

    job->c = c;
    job->record = *record;
    job->sequence = job->stored_sequence = record->sequence;
    return job;
}

void ps_live_destroy(ps_live *job)
{
    ps_record_fini(&job->record);
    free(job);
}

/* What is not stored is said once, not at every try. */
static bool note(ps_live *job, const ps_status *st)
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
    return !job->is_unsaved;
}

bool ps_live_save(ps_live *job)
{
    ps_status st = ps_registry_save(job->c->registry, &job->record, NULL);

    return note(job, &st);
}

static void give_number(ps_live *job)
{
    job->sequence++;
    if (job->sequence > job->record.sequence) {
        job->record.sequence = job->sequence + SEQUENCE_BATCH;
    }
}

/* Stores the job and an event of it, then tells the watchers. */
static ps_status publish(ps_live *job, Psgd__V1__JobEventKind kind)
{
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    int64_t wall_us = ps_clock_wall_us();
    ps_status st;

    give_number(job);
    time.seconds = wall_us / 1000000;
    time.nanos = (int32_t)(wall_us % 1000000) * 1000;
    event.sequence = job->sequence;
    event.time = &time;
    event.job = job->record.job;
    event.kind = kind;
    st = ps_registry_save(job->c->registry, &job->record, &event);
    if (!ps_is_ok(&st)) {
        return st;
    }
    job->stored_sequence = job->sequence;
    job->progress_sequence = 0; /* superseded: this one is newer */
    if (kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE &&
        job->c->conf.exit_at == job->record.job->state) {
        kill(getpid(), SIGKILL); /* a fault that a test asked for */
    }
    ps_coordinator_wake_watchers(job->c, job->record.number);
    return st;
}

/* To the watchers, as progress: nothing is stored. */
static void show(ps_live *job)
{
    give_number(job);
    job->progress_sequence = job->sequence;
    job->progress_us = ps_clock_us();
    ps_coordinator_wake_watchers(job->c, job->record.number);
}

void ps_live_publish(ps_live *job, Psgd__V1__JobEventKind kind)
{
    ps_status st = publish(job, kind);

    if (!note(job, &st)) {
        show(job);
    }
}

void ps_live_progress(ps_live *job, int64_t now_us)
{
    if (now_us - job->progress_us < PROGRESS_US) {
        return;
    }
    job->progress_us = now_us;
    if (job->sequence == job->record.sequence) {
        give_number(job);
        ps_live_save(job);
    } else {
        give_number(job);
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

static void set(ps_live *job, Psgd__V1__JobState state, const char *reason, const char *message)
{
    job->record.job->state = state;
    ps_text_set(&job->record.job->reason, reason);
    ps_text_set(&job->record.job->message, message);
}

void ps_live_set_state(ps_live *job, Psgd__V1__JobState state, const char *reason,
                       const char *message)
{
    if (is_shown(job, state, reason, message)) {
        return;
    }
    log_state(job, state, reason, message);
    set(job, state, reason, message);
    ps_live_publish(job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE);
}

ps_status ps_live_store(ps_live *job, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                        const char *reason, const char *message)
{
    Psgd__V1__Job *msg = job->record.job;
    Psgd__V1__JobState old_state = msg->state, old_outcome = job->record.outcome;
    char *old_reason = ps_xstrdup(msg->reason), *old_message = ps_xstrdup(msg->message);
    bool is_news = !is_shown(job, state, reason, message);
    ps_status st;

    set(job, state, reason, message);
    job->record.outcome = outcome;
    st = is_news ? publish(job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE)
                 : ps_registry_save(job->c->registry, &job->record, NULL);
    set(job, old_state, old_reason, old_message);
    if (ps_is_ok(&st)) {
        log_state(job, state, reason, message);
        set(job, state, reason, message);
        note(job, &st);
    } else {
        job->record.outcome = old_outcome;
    }
    free(old_reason);
    free(old_message);
    return st;
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
    uint64_t before = job->stored_sequence;

    ps_registry_relax(job->c->registry, true);
    ps_live_set_state(job, PSGD__V1__JOB_STATE__JOB_STATE_QUEUED, reason, message);
    ps_registry_relax(job->c->registry, false);
    return job->stored_sequence != before;
}
