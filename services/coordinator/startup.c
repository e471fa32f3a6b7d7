/* SPDX-License-Identifier: Apache-2.0 */
/* startup.c - see startup.h: compares the registry with the files of jobs. */
#include "services/coordinator/startup.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/strbuf.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/recover.h"

#include <stdio.h>

enum {
    UNKNOWN_NAMES_MAX = 10, /* most folders of unknown jobs that the log names */
    /* attempt numbers that are skipped if the registry is not as it was last used */
    ATTEMPTS_SKIPPED = 1000
};

/* What users are advised to do about a wrong registry. */
#define ADVICE                                                                                     \
    "Stop the coordinator, and restore the right jobs.db or run psgd-coordinator --recover, "      \
    "which "                                                                                       \
    "reads jobs from their files"

static uint32_t bit(Psgd__V1__JobState state)
{
    return 1u << (unsigned)state;
}

static bool take_up(void *arg, ps_record *record)
{
    ps_coordinator *c = arg;

    if (record->is_damaged) {
        ps_record_fini(record); /* the job is left out, as its content cannot be read */
        return true;
    }
    /* records are read newest first, so prepending keeps their order */
    ps_jobs_prepend(&c->jobs, ps_live_create(record));
    return true;
}

static ps_status load_jobs(ps_coordinator *c)
{
    uint32_t states =
        ~(bit(PSGD__V1__JOB_STATE__JOB_STATE_DONE) | bit(PSGD__V1__JOB_STATE__JOB_STATE_FAILED) |
          bit(PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED));

    return ps_registry_each(c->registry, 0, states, take_up, c);
}

/* Ends a job that is not over in the registry, if its folder has the files of its end: the registry
 * is then older than the files. Running the job again would overwrite them. */
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
        ps_jobs_remove(&c->jobs, job);
        ps_live_destroy(job);
    } else {
        ps_log(PS_LOG_ERROR, "registry", "job %s: %s", id, st.text);
    }
    ps_record_fini(&record);
}

/* Raises the number of a job's last attempt by ATTEMPTS_SKIPPED, above all numbers that nodes may
 * know, because the registry may be older than these. An attempt that is in RUNNING or later by the
 * registry keeps its number, so that it can be adopted. */
static void skip_attempts(ps_live *job)
{
    Psgd__V1__Job *msg = job->record.job;

    if (msg->state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING &&
        msg->attempt < UINT32_MAX - ATTEMPTS_SKIPPED) {
        msg->attempt += ATTEMPTS_SKIPPED;
    }
}

static void take_ends(ps_coordinator *c)
{
    const ps_database *d = ps_registry_database(c->registry);

    ps_live *next;

    if (!d || d->news == PS_DATABASE_AS_BEFORE) {
        return;
    }
    for (ps_live *job = c->jobs.first; job; job = next) {
        next = job->next;
        skip_attempts(job); /* first, because take_end may free the job */
        take_end(c, job);
    }
}

static bool has_folder(void *arg, const char *job_id)
{
    const ps_coordinator *c = arg;

    return ps_artifacts_exist(c->conf.data_dir, job_id);
}

/* A search of the data directory for what a crash has left. */
typedef struct sweep {
    ps_coordinator *c;
    size_t unknown;  /* folders of jobs that the registry does not know */
    ps_strbuf names; /* names of the first UNKNOWN_NAMES_MAX of these */
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

/* Logs how jobs.db differs from what was last used here, and what to do. Logs nothing if it does
 * not differ. */
static void tell_news(const ps_coordinator *c)
{
    const ps_database *d = ps_registry_database(c->registry);
    char what[400];

    if (!d) {
        return;
    }
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

ps_status ps_startup(ps_coordinator *c)
{
    ps_status st;

    tell_news(c);
    st = load_jobs(c);
    if (ps_is_ok(&st)) {
        take_ends(c);
        ps_registry_avoid(c->registry, has_folder, c);
        sweep_files(c);
    }
    return st;
}
