/* SPDX-License-Identifier: Apache-2.0 */
/* trackers.c - see trackers.h. */
#include "services/coordinator/trackers.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/linked.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/tracker/tracked.h"
#include "services/coordinator/coordinator.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/artifacts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { ALLOWED_MAX = 64, PATH_BYTES = PS_TRACKED_NOTE_BYTES - 24 };

/* A job that trackers are told of. */
typedef struct tracked {
    const ps_live *job; /* NULL: the job was over before ps_trackers_begin */
    ps_tracked told;
    struct tracked *prev, *next;
} tracked;

struct ps_trackers {
    ps_coordinator *c;
    ps_address *allowed; /* (allowed_count) */
    size_t allowed_count;
    bool allows_loopback;
    ps_tracker_conf conf;
    ps_tracker_logins logins;
    ps_tracker *tracker; /* NULL: no job of this process has had a tracker yet, or is_stopped */
    bool is_stopped;
    tracked *jobs;
};

/* --- settings ----------------------------------------------------------------------- */

static ps_status read_allowed(ps_trackers *t, const char *text)
{
    char *copy = ps_xstrdup(text), *rest = NULL;
    ps_status st = ps_ok();

    t->allowed = ps_xcalloc(ALLOWED_MAX, sizeof *t->allowed);
    for (char *word = strtok_r(copy, ", ", &rest); word != NULL && ps_is_ok(&st);
         word = strtok_r(NULL, ", ", &rest)) {
        ps_address *at = &t->allowed[t->allowed_count];

        if (t->allowed_count == ALLOWED_MAX) {
            st = ps_fail(PS_INVALID_ARGUMENT, "--tracker-allow: at most %d addresses are allowed",
                         ALLOWED_MAX);
            break;
        }
        st = ps_wrap(ps_address_parse(word, "", 0, at), "--tracker-allow");
        if (ps_is_ok(&st) && (at->port == 0 || at->host[0] == '\0')) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "--tracker-allow: \"%s\"; HOST:PORT is allowed, both parts",
                         PS_SHORT(word, 60));
        }
        t->allowed_count += ps_is_ok(&st);
    }
    free(copy);
    return st;
}

static void told(void *arg, const ps_track_news *news);

ps_status ps_trackers_create(ps_coordinator *c, const ps_trackers_conf *conf, ps_trackers **out)
{
    static const ps_trackers_conf none = {.allowed = "off"};
    ps_trackers *t = ps_xcalloc(1, sizeof *t);
    ps_status st = ps_ok();
    bool is_set;

    conf = conf != NULL ? conf : &none;
    is_set = conf->allowed != NULL && conf->allowed[0] != '\0';
    t->c = c;
    t->allows_loopback = !is_set && conf->listen_is_loopback;
    t->conf = (ps_tracker_conf){.logins = &t->logins,
                                .ca = conf->ca,
                                .is_insecure = conf->is_insecure,
                                .told = told,
                                .arg = t};
    if (is_set && strcmp(conf->allowed, "off") != 0) {
        st = read_allowed(t, conf->allowed);
        if (ps_is_ok(&st)) {
            st = ps_wrap(ps_tracker_can_call(), "--tracker-allow");
        }
    }
    if (ps_is_ok(&st)) {
        st = ps_wrap(ps_tracker_logins_read(conf->logins, &t->logins), "--tracker-logins");
    }
    if (ps_is_ok(&st)) {
        st = ps_tracker_logins_set(&t->logins, conf->token, conf->user, conf->password);
    }
    if (!ps_is_ok(&st)) {
        ps_trackers_destroy(t);
        return st;
    }
    *out = t;
    return ps_ok();
}

void ps_trackers_stop(ps_trackers *t)
{
    if (t == NULL) {
        return;
    }
    t->is_stopped = true;
    ps_tracker_destroy(t->tracker);
    t->tracker = NULL;
    while (t->jobs != NULL) {
        tracked *job = t->jobs;

        PS_UNLINK(t->jobs, job);
        free(job);
    }
}

void ps_trackers_destroy(ps_trackers *t)
{
    if (t != NULL) {
        ps_trackers_stop(t);
        ps_tracker_logins_fini(&t->logins);
        free(t->allowed);
        free(t);
    }
}

static bool allows(const ps_trackers *t, const ps_address *address)
{
    if (t->allows_loopback && ps_address_is_loopback(address)) {
        return true;
    }
    for (size_t i = 0; i < t->allowed_count; i++) {
        if (t->allowed[i].port == address->port &&
            strcasecmp(t->allowed[i].host, address->host) == 0) {
            return true;
        }
    }
    return false;
}

ps_status ps_trackers_check(const ps_trackers *t, const Psgd__V1__JobSpec *spec, ps_error *error)
{
    ps_status st = ps_ok();

    for (size_t i = 0; i < spec->n_tracker; i++) {
        ps_tracker_url url;
        char field[48], address[PS_ADDRESS_TEXT_BYTES];
        ps_status one = ps_tracker_url_parse(spec->tracker[i], &url);

        snprintf(field, sizeof field, "spec.tracker[%zu]", i);
        if (ps_is_ok(&one) && !allows(t, &url.address)) {
            ps_address_format(&url.address, address);
            one = ps_fail(PS_INVALID_ARGUMENT,
                          "this coordinator may not call %s; whoever operates it can allow that by "
                          "--tracker-allow %s",
                          PS_SHORT(address, 80), PS_SHORT(address, 80));
        }
        if (ps_is_ok(&one)) {
            one = ps_tracker_can_call();
        }
        if (!ps_is_ok(&one)) {
            ps_error_violate(error, field, "%s", one.text);
            st = ps_is_ok(&st) ? ps_fail(PS_INVALID_ARGUMENT, "%s: %s", field, one.text) : st;
        }
    }
    return st;
}

uint64_t ps_trackers_dropped(const ps_trackers *t)
{
    return t != NULL ? ps_tracker_dropped(t->tracker) : 0;
}

/* --- what trackers say -------------------------------------------------------------- */

typedef struct news {
    ps_event event;
    ps_trackers *trackers;
    char job_id[PS_COORDINATOR_ID_MAX];
    size_t index;
    char *run_id, *message;
} news;

/* Returns the job's TrackerRun of tracker `index`. Adds it, and those before it, if the job lacks
 * them. */
static Psgd__V1__TrackerRun *run_of(Psgd__V1__Job *job, size_t index)
{
    while (job->n_tracker_runs <= index) {
        Psgd__V1__TrackerRun *run = ps_xmalloc(sizeof *run);

        psgd__v1__tracker_run__init(run);
        ps_text_set(&run->tracker, job->spec->tracker[job->n_tracker_runs]);
        job->tracker_runs =
            ps_xrealloc(job->tracker_runs, (job->n_tracker_runs + 1) * sizeof(void *));
        job->tracker_runs[job->n_tracker_runs++] = run;
    }
    return job->tracker_runs[index];
}

/* Writes run id and message of a tracker into the job, unless the job is over, and publishes an
 * event if one of them has changed. */
static void take_news(ps_event *event, bool ok)
{
    news *n = PS_CONTAINER_OF(event, news, event);
    ps_live *job = ok ? ps_jobs_find(&n->trackers->c->jobs, n->job_id) : NULL;

    if (job != NULL && n->index < job->record.job->spec->n_tracker) {
        Psgd__V1__TrackerRun *run = run_of(job->record.job, n->index);

        if (strcmp(run->run_id, n->run_id) != 0 || strcmp(run->message, n->message) != 0) {
            ps_text_set(&run->run_id, n->run_id);
            ps_text_set(&run->message, n->message);
            ps_live_publish(job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE);
        }
    }
    free(n->run_id);
    free(n->message);
    free(n);
}

/* Passes what a tracker has told to the loop's thread. Called on the tracker's thread. */
static void told(void *arg, const ps_track_news *what)
{
    ps_trackers *t = arg;
    news *n = ps_xcalloc(1, sizeof *n);

    n->event.fire = take_news;
    n->trackers = t;
    snprintf(n->job_id, sizeof n->job_id, "%s", what->job_id);
    n->index = what->index;
    n->run_id = ps_xstrdup(what->run_id);
    n->message = ps_xstrdup(what->message);
    ps_loop_post(t->c->loop, &n->event);
}

/* --- what trackers are told --------------------------------------------------------- */

static void name_note(const ps_trackers *t, const char *job_id, char note[PATH_BYTES])
{
    snprintf(note, PATH_BYTES, "%s/trackers/%s", t->c->conf.data_dir, job_id);
}

static tracked *find(const ps_trackers *t, const ps_live *live)
{
    tracked *job = t->jobs;

    while (job != NULL && job->job != live) {
        job = job->next;
    }
    return job;
}

/* Begins to tell the trackers of a job, except those whose bits in `skipped` are set. `live` is
 * NULL if the job is over. A failure is only logged. */
static tracked *begin(ps_trackers *t, const ps_live *live, const Psgd__V1__Job *msg,
                      unsigned skipped)
{
    tracked *job = ps_xcalloc(1, sizeof *job);
    char note[PATH_BYTES];
    ps_status st = ps_ok();

    if (t->tracker == NULL) {
        st = ps_tracker_create(&t->conf, &t->tracker);
    }
    job->job = live;
    name_note(t, msg->id, note);
    if (ps_is_ok(&st)) {
        st = ps_tracked_begin(&job->told, t->tracker, msg, note, skipped);
    }
    if (!ps_is_ok(&st)) {
        ps_log_with(PS_LOG_ERROR, "tracker", PS_LOG_FIELDS(PS_LOG_STR("job", msg->id)),
                    "not all trackers are told: %s", st.text);
    }
    PS_LINK_FIRST(t->jobs, job);
    return job;
}

/* Tells the trackers the end of the job and where its files are, and frees `job`. What the trackers
 * have not received yet is still sent. */
static void end(ps_trackers *t, tracked *job, const Psgd__V1__Job *msg)
{
    char folder[PS_FOLDER_MAX];
    ps_status st = ps_artifacts_folder(folder, t->c->conf.data_dir, msg->id);

    ps_tracked_end(&job->told, msg, ps_is_ok(&st) ? folder : "");
    PS_UNLINK(t->jobs, job);
    free(job);
}

/* Returns whether the job has begun to train. */
static bool has_begun(const Psgd__V1__Job *msg)
{
    return msg->start_time != NULL;
}

/* Tells the job's trackers of the evaluation in the change that is about to be stored, if it is of
 * one. */
static void take_change(ps_trackers *t, const ps_live *live)
{
    const ps_live_change *change = live->to_store;
    tracked *job = find(t, live);

    if (job != NULL && change != NULL && change->has_event &&
        change->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS) {
        ps_tracked_result(&job->told, NULL, change->record.job, change->sequence,
                          ps_clock_wall_us() / 1000);
    }
}

void ps_trackers_changed(void *arg, ps_live *live, ps_job_news what)
{
    ps_trackers *t = *(ps_trackers **)arg;
    const Psgd__V1__Job *msg = live->record.job;
    tracked *job;

    if (t == NULL || t->is_stopped || msg->spec->n_tracker == 0) {
        return;
    }
    if (what == PS_JOB_TO_STORE) {
        take_change(t, live);
        return;
    }
    if (what != PS_JOB_STATE && what != PS_JOB_EVENT && what != PS_JOB_OVER) {
        return;
    }
    job = find(t, live);
    if (job == NULL && (has_begun(msg) || what == PS_JOB_OVER)) {
        job = begin(t, live, msg, 0);
    }
    if (job != NULL && msg->progress != NULL) {
        ps_tracked_progress(&job->told, msg->progress, what == PS_JOB_OVER);
    }
    if (job != NULL && what == PS_JOB_OVER) {
        end(t, job, msg);
    }
}

/* --- after a restart ---------------------------------------------------------------- */

/* Sends each tracker of the job the stored results that are newer than what its note file says that
 * it has. */
static void send_stored(ps_trackers *t, tracked *job, const Psgd__V1__Job *msg, uint64_t number)
{
    uint64_t has[PS_TRACKERS_MAX], after = 0;
    Psgd__V1__WatchJobResponse *event = NULL;
    char note[PATH_BYTES], path[PS_TRACKED_NOTE_BYTES];

    name_note(t, msg->id, note);
    for (size_t i = 0; i < job->told.count; i++) {
        ps_tracked_note(note, i, path);
        has[i] = ps_track_read_note(path);
    }
    for (;;) {
        ps_status st = ps_registry_next_event(t->c->reader, number, after, &event);

        if (!ps_is_ok(&st) || event == NULL) {
            break; /* there are no more events, or others log that the registry cannot be read */
        }
        after = event->sequence;
        if (event->job != NULL &&
            event->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS) {
            for (size_t i = 0; i < job->told.count; i++) {
                if (job->told.tracks[i] != NULL && event->sequence > has[i]) {
                    ps_tracked_result(&job->told, job->told.tracks[i], event->job, event->sequence,
                                      ps_tracked_ms(event->time));
                }
            }
        }
        psgd__v1__watch_job_response__free_unpacked(event, NULL);
        event = NULL;
    }
}

/* Returns the trackers that have received everything of a job, as bits: those without a note
 * file. */
static unsigned complete(const ps_trackers *t, const Psgd__V1__Job *msg)
{
    char note[PATH_BYTES], path[PS_TRACKED_NOTE_BYTES];
    unsigned bits = 0;

    name_note(t, msg->id, note);
    for (size_t i = 0; i < msg->spec->n_tracker && i < PS_TRACKERS_MAX; i++) {
        ps_tracked_note(note, i, path);
        bits |= access(path, F_OK) == 0 ? 0u : 1u << i;
    }
    return bits;
}

/* Sends the rest of a job that ended before its trackers had received everything. If the registry
 * does not have the job (it was deleted), removes the file `note` and returns false. */
static bool go_on_with_ended(ps_trackers *t, const char *job_id, const char *note)
{
    ps_record record = {0};
    ps_status st = ps_registry_load(t->c->reader, job_id, &record);
    bool is_there = st.code != PS_NOT_FOUND;
    tracked *job;

    if (ps_is_ok(&st) && ps_state_is_final(record.job->state)) {
        job = begin(t, NULL, record.job, complete(t, record.job));
        send_stored(t, job, record.job, record.number);
        end(t, job, record.job);
    } else if (!is_there) {
        unlink(note);
    }
    ps_record_fini(&record);
    return is_there;
}

/* Sends the rest of the jobs that are over and of which a note file is left in
 * DATA_DIR/trackers. */
static void go_on_with_files(ps_trackers *t)
{
    char path[PATH_BYTES], before[PS_COORDINATOR_ID_MAX] = "";
    struct dirent **names = NULL;
    int count;

    snprintf(path, sizeof path, "%s/trackers", t->c->conf.data_dir);
    count = scandir(path, &names, NULL, alphasort); /* sorted: files of a job are neighbours */
    for (int i = 0; i < count; i++) {
        char job_id[PS_COORDINATOR_ID_MAX];
        const char *dot = strrchr(names[i]->d_name, '.');
        char note[PATH_BYTES + sizeof names[i]->d_name];

        if (dot != NULL && ps_name_is_safe(names[i]->d_name) &&
            (size_t)(dot - names[i]->d_name) < sizeof job_id) {
            snprintf(job_id, sizeof job_id, "%.*s", (int)(dot - names[i]->d_name),
                     names[i]->d_name);
            snprintf(note, sizeof note, "%s/%s", path, names[i]->d_name);
            if (strcmp(job_id, before) != 0 &&
                (ps_jobs_find(&t->c->jobs, job_id) != NULL || go_on_with_ended(t, job_id, note))) {
                snprintf(before, sizeof before, "%s", job_id);
            }
        }
        free(names[i]);
    }
    free(names);
}

void ps_trackers_begin(ps_trackers *t)
{
    char folder[PATH_BYTES];

    snprintf(folder, sizeof folder, "%s/trackers", t->c->conf.data_dir);
    ps_dir_sweep(folder);
    for (ps_live *live = t->c->jobs.first; live != NULL; live = live->next) {
        const Psgd__V1__Job *msg = live->record.job;

        if (msg->spec->n_tracker > 0 && has_begun(msg)) {
            send_stored(t, begin(t, live, msg, 0), msg, live->record.number);
        }
    }
    go_on_with_files(t);
}
