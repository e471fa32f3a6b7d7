/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - see watch.h. */
#include "clients/psgd/watch.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_BYTES = 4 << 20, SELF_BYTES = 512 };

static void forget_nodes(ps_watch *w)
{
    if (w->nodes != NULL) {
        psgd__v1__job__free_unpacked(w->nodes, NULL);
        w->nodes = NULL;
    }
}

static void show_end(const ps_watch *w, const Psgd__V1__Job *job)
{
    bool is_done = job->state == PSGD__V1__JOB_STATE__JOB_STATE_DONE;
    char self[SELF_BYTES];

    ps_cli_self(w->cli, self, sizeof self);
    if (job->start_time != NULL && job->end_time != NULL) {
        printf("took      %.1f s\n",
               ps_show_seconds(job->end_time) - ps_show_seconds(job->start_time));
    }
    ps_show_results(job);
    ps_show_goodput(job);
    ps_show_files(job);
    if (w->no_next) {
        return;
    }
    puts("Next:");
    if (!is_done) {
        printf("  %s logs %s\n", self, w->job_id);
    }
    if (job->n_artifacts > 0) {
        printf("  %s download %s\n", self, w->job_id);
    }
    printf("  %s get %s\n", self, w->job_id);
}

/* Shows the job from GetJob's answer and ends the program. Called after the job has ended, or, with
 * --format json, after the user has stopped watching. */
static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_watch *w = arg;
    const Psgd__V1__GetJobResponse *answer = (const Psgd__V1__GetJobResponse *)reply;
    const Psgd__V1__Job *job;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(w->cli, error);
        return;
    }
    job = answer->job;
    if (job == NULL) {
        fputs("psgd: the coordinator's answer has no job\n", stderr);
        ps_cli_end(w->cli, PS_EXIT_BUG);
        return;
    }
    if (w->cli->format == PS_FORMAT_TEXT) {
        show_end(w, job);
    } else if (w->cli->format == PS_FORMAT_JSON) {
        ps_cli_json(w->cli, &job->base);
    }
    ps_cli_end(w->cli, w->is_detached || job->state == PSGD__V1__JOB_STATE__JOB_STATE_DONE
                           ? PS_EXIT_OK
                           : PS_EXIT_SERVER);
}

static void ask_for_job(ps_watch *w)
{
    Psgd__V1__GetJobRequest request = PSGD__V1__GET_JOB_REQUEST__INIT;

    w->is_over = true;
    if (w->is_asking) {
        return; /* on_workers calls ask_for_job again when GetJob for the workers was answered */
    }

    request.job_id = w->job_id;
    ps_cli_call(w->cli, "GetJob", &request.base, on_job, w);
}

/* Shows the workers from GetJob's answer. After a failure shows nothing; a later event asks again.
 * If the stream of events has ended meanwhile, asks for the job instead. */
static void on_workers(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetJobResponse *answer = (const Psgd__V1__GetJobResponse *)reply;
    ps_watch *w = arg;
    char text[PS_SHOW_PROGRESS_BYTES];

    w->is_asking = false;
    if (w->is_over) {
        ask_for_job(w);
        return;
    }
    if (!ps_is_ok(&error->status) || answer->job == NULL) {
        return;
    }
    if (w->cli->format == PS_FORMAT_JSONL) {
        ps_cli_json(w->cli, reply);
        return;
    }
    for (size_t i = 0; i < answer->n_workers; i++) {
        ps_show_worker(answer->job, answer->workers[i], text, sizeof text);
        ps_live_line(&w->live, "%s", text);
    }
}

/* With --workers, calls GetJob for the workers, at most once in PS_LIVE_PERIOD_US. Does nothing
 * with --format json. */
static void ask_for_workers(ps_watch *w)
{
    Psgd__V1__GetJobRequest request = PSGD__V1__GET_JOB_REQUEST__INIT;
    int64_t now_us = ps_clock_us();

    if (!w->with_workers || w->is_asking || w->cli->format == PS_FORMAT_JSON ||
        (w->asked_us > 0 && now_us - w->asked_us < PS_LIVE_PERIOD_US)) {
        return;
    }
    w->is_asking = true;
    w->asked_us = now_us;
    request.job_id = w->job_id;
    request.workers = true;
    ps_cli_call(w->cli, "GetJob", &request.base, on_workers, w);
}

/* Shows each of the job's recoveries once, as soon as it is over (its `seconds` are above 0). */
static void show_recoveries(ps_watch *w, const Psgd__V1__Job *job)
{
    char text[sizeof w->shown];

    for (size_t i = 0; i < job->n_recoveries; i++) {
        const Psgd__V1__Recovery *r = job->recoveries[i];

        if (r->seconds > 0 && r->attempt > w->recovered) {
            w->recovered = r->attempt;
            ps_show_recovery(r, text, sizeof text);
            ps_live_line(&w->live, "%s", text);
        }
    }
}

/* Shows the nodes of a job that trains: of its first attempt all, of another one those that have
 * another part than before. */
static void show_nodes(ps_watch *w, const Psgd__V1__Job *job)
{
    Psgd__V1__Job shown = PSGD__V1__JOB__INIT;

    if (job->state != PSGD__V1__JOB_STATE__JOB_STATE_RUNNING || job->n_placements == 0 ||
        (w->nodes != NULL && w->nodes->attempt == job->attempt)) {
        return;
    }
    ps_live_clear(&w->live);
    ps_show_nodes(job, w->nodes);
    forget_nodes(w);
    shown.attempt = job->attempt;
    shown.placements = job->placements;
    shown.n_placements = job->n_placements;
    w->nodes = (Psgd__V1__Job *)ps_cli_copy(&shown.base);
}

/* Shows the message of each tracker about what it has not accepted, only the first one of each. */
static void show_trackers(ps_watch *w, const Psgd__V1__Job *job)
{
    char text[sizeof w->shown];

    for (size_t i = 0; i < job->n_tracker_runs && i < 8 * sizeof w->trackers; i++) {
        if (job->tracker_runs[i]->message[0] != '\0' && (w->trackers >> i & 1) == 0) {
            w->trackers |= 1u << i;
            ps_show_tracker(job->tracker_runs[i], text, sizeof text);
            ps_live_line(&w->live, "%s", text);
        }
    }
}

/* Returns the metric `name` of the job's result, or NAN if the result does not have it. */
static double result_of(const Psgd__V1__Job *job, const char *name)
{
    for (size_t i = 0; i < job->n_result; i++) {
        if (strcmp(job->result[i]->key, name) == 0) {
            return job->result[i]->value;
        }
    }
    return (double)NAN;
}

static void add_test(ps_watch *w, const Psgd__V1__Job *job)
{
    if (w->with_curves && job->progress != NULL) {
        ps_curves_add(&w->curves, true, (double)job->progress->step, result_of(job, "loss"),
                      result_of(job, "accuracy"));
    }
}

static void show_progress(ps_watch *w, const Psgd__V1__Progress *progress)
{
    if (!w->with_curves) {
        ps_live_progress(&w->live, progress, ps_clock_us());
        return;
    }
    if (progress->step > 0) {
        ps_curves_add(&w->curves, false, (double)progress->step, progress->loss,
                      progress->accuracy);
    }
    ps_live_curves(&w->live, progress, &w->curves, ps_clock_us());
}

static void show_event(ps_watch *w, const Psgd__V1__WatchJobResponse *event)
{
    const Psgd__V1__Job *job = event->job;
    char text[sizeof w->shown];

    if (job->spec != NULL) { /* events of progress have none */
        w->live.computes = job->spec->compute != NULL;
    }
    ps_show_state_line(job, text, sizeof text);
    if (event->kind != PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_PROGRESS &&
        strcmp(text, w->shown) != 0) {
        memcpy(w->shown, text, sizeof text);
        if (w->with_curves && job->state != PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
            ps_live_keep(&w->live);
        }
        ps_live_line(&w->live, "%s", text);
    }
    show_recoveries(w, job);
    show_trackers(w, job);
    show_nodes(w, job);
    if (event->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS && job->n_result > 0) {
        add_test(w, job);
        if (!w->with_curves || !w->live.is_terminal) {
            ps_show_result(job, text, sizeof text);
            ps_live_line(&w->live, "test set: %s", text);
        }
    }
    if (job->progress != NULL && job->progress->total_steps > 0 &&
        job->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        show_progress(w, job->progress);
    }
}

static void on_event(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_watch *w = arg;
    const Psgd__V1__WatchJobResponse *event = (const Psgd__V1__WatchJobResponse *)head;

    (void)payload;
    w->request.after_sequence = event->sequence;
    if (w->cli->format == PS_FORMAT_JSONL) {
        ps_cli_json(w->cli, head);
    } else if (w->cli->format == PS_FORMAT_TEXT && event->job != NULL) {
        show_event(w, event);
    }
    if (event->kind == PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_PROGRESS) {
        ask_for_workers(w);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    ps_watch *w = arg;

    if (w->with_curves) {
        ps_live_keep(&w->live);
    }
    ps_live_clear(&w->live);
    if (w->is_detached) {
        char self[SELF_BYTES];

        ps_cli_self(w->cli, self, sizeof self);
        fprintf(stderr,
                "Detached; the job goes on.\n  %s watch %s   to follow it again\n"
                "  %s cancel %s  to stop it\n",
                self, w->job_id, self, w->job_id);
        if (w->cli->format == PS_FORMAT_JSON) {
            ask_for_job(w);
        } else {
            ps_cli_end(w->cli, PS_EXIT_OK);
        }
    } else if (ps_is_ok(&error->status)) {
        ask_for_job(w);
    } else {
        ps_cli_fail(w->cli, error);
        if (error->status.code == PS_UNAVAILABLE) {
            char self[SELF_BYTES];

            ps_cli_self(w->cli, self, sizeof self);
            fprintf(stderr, "The job may go on.\n  %s watch %s   to follow it again\n", self,
                    w->job_id);
        }
    }
}

static const ProtobufCMessage *on_open(void *arg)
{
    return &((ps_watch *)arg)->request.base;
}

static void on_interrupt(void *arg)
{
    ps_watch *w = arg;

    if (!w->is_detached) {
        w->is_detached = true;
        ps_reader_cancel(&w->reader);
    }
}

void ps_watch_start(ps_watch *watch, ps_cli *cli, const char *job_id)
{
    static const ps_reader_events events = {on_open, on_event, on_end};

    *watch = (ps_watch){.cli = cli,
                        .job_id = ps_xstrdup(job_id),
                        .with_workers = watch->with_workers,
                        .with_curves = watch->with_curves,
                        .no_next = watch->no_next};
    psgd__v1__watch_job_request__init(&watch->request);
    watch->request.job_id = watch->job_id;
    ps_live_init(&watch->live);
    cli->on_interrupt = on_interrupt;
    cli->arg = watch;
    ps_reader_open(&watch->reader, cli, "WatchJob", watch->job_id, EVENT_BYTES, &events, watch);
}

void ps_watch_fini(ps_watch *watch)
{
    free(watch->job_id);
    forget_nodes(watch);
    ps_curves_fini(&watch->curves);
}

/* --- the subcommand ------------------------------------------------------------- */

static bool prepare(ps_cli *cli, void *options)
{
    const ps_watch *w = options;

    if (w->with_curves && cli->format != PS_FORMAT_TEXT) {
        fprintf(stderr, "psgd: --curves draws text; leave it or --format %s out\n",
                cli->general.format);
        return false;
    }
    return true;
}

static void start(ps_cli *cli, void *options)
{
    ps_watch *w = options;

    ps_watch_start(w, cli, ps_cli_job(cli));
    if (w->with_curves && !w->live.is_terminal) {
        fputs("psgd: --curves draws on a terminal, and stdout is none: progress is printed as "
              "lines\n",
              stderr);
    }
}

static void fini(void *options)
{
    ps_watch_fini(options);
}

static const ps_option options[] = {
    PS_OPTION_BOOL(ps_watch, with_workers, .name = "workers",
                   .help = "also show every worker: its step, loss, metrics and waiting time"),
    PS_OPTION_BOOL(ps_watch, with_curves, .name = "curves",
                   .help = "draw loss and accuracy on the terminal, in Braille, or in ASCII if "
                           "the locale has no UTF-8"),
    /* for psgd launch: show_end advises no further commands, as the coordinator ends then */
    PS_OPTION_BOOL(ps_watch, no_next, .name = "no-next"),
    PS_OPTION_END,
};

const ps_subcommand ps_subcommand_watch = {
    .command = {.name = "psgd watch",
                .summary =
                    "Follows a job to its end: progress, changes of its state, evaluations. "
                    "Ctrl-C stops watching; the job continues. Exits with 1 if the job failed.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1},
    .options = options,
    .options_size = sizeof(ps_watch),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
