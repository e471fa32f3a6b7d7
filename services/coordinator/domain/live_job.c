/* SPDX-License-Identifier: Apache-2.0 */
/* live_job.c - a job that is not over: its record, its events, and the changes to be stored. */
#include "services/coordinator/domain/live_job.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "services/coordinator/domain/job_message.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Progress events are not stored, but after a crash their numbers must not be used again. So
     * the record has a number that no event's number exceeds, record.sequence. When the events come
     * near it, it is raised to SEQUENCE_BATCH more than the newest one's number, and stored. */
    SEQUENCE_BATCH = 1000,
    /* If so many events of a job wait for the disk, a further one is shown as progress and not
     * stored, unless it is a STATE event. */
    EVENTS_MAX = 64,
    PROGRESS_US = 250000,
    LATER_MAX = sizeof((ps_live){0}.later) / sizeof(bool)
};

ps_live *ps_live_create(const ps_record *record)
{
    ps_live *job = ps_xcalloc(1, sizeof *job);

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

/* Records whether the last change was stored. Publishes this when it changes, so a failure is
 * logged once, not at every try. */
static void note(ps_live *job, const ps_status *st)
{
    bool was_unsaved = job->is_unsaved;

    if (job->is_over) {
        return; /* the job is over, so no change of it is tried again */
    }
    job->is_unsaved = !ps_is_ok(st);
    job->board->unsaved += job->is_unsaved;
    job->board->unsaved -= was_unsaved;
    job->unsaved_why = *st;
    if (job->is_unsaved != was_unsaved) {
        ps_jobs_publish(job->board, job, PS_JOB_SAVING);
    }
}

static void give_number(ps_live *job)
{
    job->sequence++;
    if (job->sequence > job->record.sequence) {
        job->record.sequence = job->sequence + SEQUENCE_BATCH;
    }
}

/* Shows the job to watchers as a progress event, which is not stored. */
static void show(ps_live *job)
{
    give_number(job);
    job->progress_sequence = job->sequence;
    job->progress_us = job->board->clock();
    ps_jobs_publish(job->board, job, PS_JOB_EVENT);
}

static void set(ps_live *job, Psgd__V1__JobState state, const char *reason, const char *message)
{
    bool is_other = job->record.job->state != state;

    job->record.job->state = state;
    ps_text_set(&job->record.job->reason, reason);
    ps_text_set(&job->record.job->message, message);
    if (is_other) {
        ps_jobs_publish(job->board, job, PS_JOB_STATE);
    }
}

/* --- changes that are being stored ------------------------------------------- */

static void take_decision(ps_live *job, const ps_live_change *ch)
{
    const Psgd__V1__Job *msg = ch->record.job;

    set(job, msg->state, msg->reason, msg->message);
    job->record.outcome = ch->record.outcome;
}

/* Publishes what waited for the decisions: an evaluation, then the state. */
static void publish_later(ps_live *job)
{
    for (size_t kind = LATER_MAX; kind-- > 0;) {
        if (job->later[kind] && job->decisions == 0 && !job->is_over && !job->board->is_closed) {
            job->later[kind] = false;
            ps_live_publish(job, (Psgd__V1__JobEventKind)kind);
        }
    }
}

void ps_live_stored(ps_live_change *ch, const ps_status *result)
{
    ps_live *job = ch->job;
    bool is_ok = ps_is_ok(result);

    job->events -= ch->has_event;
    job->decisions -= ch->then != NULL;
    if (is_ok) {
        job->reserved = ch->record.sequence;
        job->stored_sequence = ch->has_event ? ch->sequence : job->stored_sequence;
    }
    if (ch->then && is_ok) {
        take_decision(job, ch);
    }
    if (!ch->then || is_ok) {
        note(job, result);
    }
    if (is_ok && ch->has_event) {
        ps_jobs_publish(job->board, job, PS_JOB_EVENT);
    } else if (!is_ok && ch->has_event && !ch->then) {
        show(job);
    }
    publish_later(job);
    if (ch->then) {
        ch->then(ch->arg, result);
    }
    ps_record_fini(&ch->record);
    free(ch);
    job->writes--;
    if (job->is_over) {
        ps_live_destroy(job);
    }
}

/* Creates a change: the job's record is to be stored, with a copy of `shown` as its message. */
static ps_live_change *change_to(ps_live *job, const Psgd__V1__Job *shown)
{
    ps_live_change *ch = ps_xcalloc(1, sizeof *ch);

    ch->job = job;
    ch->record = job->record;
    ch->record.job = (Psgd__V1__Job *)ps_message_copy(&shown->base);
    job->writes++;
    return ch;
}

static void add_event(ps_live_change *ch, Psgd__V1__JobEventKind kind)
{
    ps_live *job = ch->job;

    give_number(job);
    job->progress_sequence = 0; /* this event is newer, so the last progress event is superseded */
    job->events++;
    ch->has_event = true;
    ch->sequence = job->sequence;
    ch->record.sequence = job->record.sequence;
    ch->kind = kind;
}

static void hand_over(ps_live_change *ch)
{
    assert(!ch->job->to_store);
    ch->job->to_store = ch;
    ps_jobs_publish(ch->job->board, ch->job, PS_JOB_TO_STORE);
}

ps_live_change *ps_live_take_change(ps_live *job)
{
    ps_live_change *ch = job->to_store;

    job->to_store = NULL;
    return ch;
}

static void publish(ps_live *job, Psgd__V1__JobEventKind kind, bool is_relaxed)
{
    ps_live_change *ch;

    if (job->decisions > 0) {
        /* Published when no change of ps_live_store is being stored any more: it may change what
         * the event shows. */
        job->later[kind] = true;
        return;
    }
    if (job->events >= EVENTS_MAX && kind != PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE) {
        show(job);
        return;
    }
    ch = change_to(job, job->record.job);
    add_event(ch, kind);
    ch->is_relaxed = is_relaxed;
    hand_over(ch);
}

void ps_live_save(ps_live *job)
{
    hand_over(change_to(job, job->record.job));
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
    ps_jobs_publish(job->board, job, PS_JOB_EVENT);
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
    ps_live_change *ch;

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
    hand_over(ch);
}

void ps_live_tell(ps_live *job, const char *reason, const char *message)
{
    if (!is_shown(job, job->record.job->state, reason, message)) {
        set(job, job->record.job->state, reason, message);
        show(job);
    }
}

bool ps_live_set_waiting(ps_live *job, const char *reason, const char *message,
                         const char *waiting_for)
{
    const Psgd__V1__JobState queued = PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    bool is_news = !is_shown(job, queued, reason, message);

    if (waiting_for[0] != '\0' || job->record.job->progress) {
        ps_text_set(&ps_job_progress(job->record.job)->waiting_for, waiting_for);
    }

    set_state(job, queued, reason, message, true);
    return is_news;
}
