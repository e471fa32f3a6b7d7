/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - psgd train [FILE] [flags]: trains a job in this process, without services. */
#include "clients/psgd/live.h"
#include "clients/psgd/spec_options.h"
#include "clients/psgd/train_trackers.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/inprocess/inprocess.h"
#include "common/inprocess/inprocess_compute.h"
#include "common/job/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_US = 200000, TEXT_BYTES = 512, ID_BYTES = 128 };

typedef struct training {
    ps_spec_flags flags;
    int64_t threads;
    const char *out, *data_path, *job_id;
    bool plan_only, init_only;
    ps_cli *cli;
    ps_plan *plan;
    ps_inprocess_job *local;
    ps_inprocess_compute *computing; /* set instead of `local` if the job computes partitions */
    ps_live live;
    ps_timer tick;
    ps_event over;
    ps_train_trackers trackers;
    int64_t waits_until_us; /* ps_clock_us at which the wait for trackers after the job ends */
    ps_status status;       /* how the job has ended */
    uint64_t sequence;      /* number of the newest event that was printed (--format jsonl) */
    char id[ID_BYTES];
} training;

static const ps_option options[] = {
    PS_OPTION_INT(training, threads, .name = "threads", .letter = 'T', .value = "0", .min = 0,
                  .max = 1024, .metavar = "N",
                  .help = "workers that compute at the same time; 0: as many as there are "
                          "processors"),
    PS_OPTION_STRING(training, out, .name = "out", .letter = 'o', .metavar = "DIR",
                     .help = "folder for the files, made if missing (default: the job's id)"),
    PS_OPTION_STRING(training, data_path, .name = "data-path", .env = "PSGD_DATA", .metavar = "DIR",
                     .help = "folder of the data sets, with DIR/mnist and others"),
    PS_OPTION_STRING(training, job_id, .name = "job-id", .metavar = "ID",
                     .help = "id of the job in its files (default: TITLE-local)"),
    PS_OPTION_BOOL(training, plan_only, .name = "plan",
                   .help = "print the plan of the job, its memory and the model's variables, then "
                           "exit"),
    PS_OPTION_BOOL(training, init_only, .name = "init-only",
                   .help = "write the untrained model that the job starts from, then exit"),
    PS_SPEC_OPTIONS(training, flags),
    PS_LOSS_OPTIONS(training, flags, PS_HIDDEN),
    PS_OPTION_END,
};

static const Psgd__V1__Job *job_now(const training *t)
{
    return t->computing != NULL ? ps_inprocess_compute_now(t->computing)
                                : ps_inprocess_job_now(t->local);
}

/* --- before ------------------------------------------------------------------- */

static void note_violation(void *arg, const char *field, const char *text)
{
    ps_error_violate(arg, field, "%s", text);
}

/* Refuses a job with fields about checkpoints, recovery from losses, workers_min or workers_max,
 * because they need services. Adds a violation for each such field. */
static ps_status refuse_service_fields(const Psgd__V1__JobSpec *spec, ps_error *error)
{
    const Psgd__V1__RecoverySpec *r = spec->recovery;
    const struct {
        const char *field;
        bool is_set;
    } refused[] = {
        {"spec.checkpoint", spec->checkpoint != NULL},
        {"spec.recovery.max_restarts", r != NULL && r->max_restarts > 0},
        {"spec.recovery.on_worker_loss", r != NULL && ps_loss_restarts(r->on_worker_loss)},
        {"spec.recovery.on_server_loss", r != NULL && ps_loss_restarts(r->on_server_loss)},
        {"spec.recovery.wait_seconds", r != NULL && r->wait_seconds != 0},
        {"spec.recovery.replicas", r != NULL && r->replicas > 1},
        {"spec.recovery.replay_mib", r != NULL && r->replay_mib > 0},
        {"spec.workers_min", spec->workers_min > 0},
        {"spec.workers_max", spec->workers_max > 0},
    };

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (refused[i].is_set) {
            ps_error_violate(error, refused[i].field,
                             "is set; psgd train runs in one process, without checkpoints and "
                             "recovery: leave it out, or run the job on services by psgd submit");
        }
    }
    return error->violation_count == 0
               ? ps_ok()
               : ps_fail(PS_INVALID_ARGUMENT, "fields that psgd train does not have");
}

static bool make_plan(training *t, const char *path)
{
    Psgd__V1__JobSpec *spec = NULL, *full = NULL;
    ps_error error;
    ps_status st = ps_spec_build(path, &t->flags, &error, &spec);

    if (ps_is_ok(&st) && !t->plan_only) {
        st = error.status = refuse_service_fields(spec, &error);
    }
    if (ps_is_ok(&st) && ps_look_is_needed(spec)) {
        st = error.status = ps_look(spec, t->data_path, &full);
        if (!ps_is_ok(&st)) {
            ps_error_violate(&error, "spec.data", "%s", st.text);
        }
    }
    if (ps_is_ok(&st)) {
        st = error.status = ps_code_complete(full != NULL ? full : spec, note_violation, &error);
    }
    if (ps_is_ok(&st)) {
        st = error.status =
            ps_plan_create(full != NULL ? full : spec, note_violation, &error, &t->plan);
    }
    if (ps_is_ok(&st) && t->plan->spec->programs > 0) {
        st = error.status = ps_fail(PS_INVALID_ARGUMENT, "programs compute the model");
        ps_error_violate(&error,
                         ps_plan_is_foreign(t->plan) ? "spec.model.foreign" : "spec.programs", "%s",
                         "is for programs that join a cluster: psgd submit takes the job");
    }
    if (full != NULL) {
        psgd__v1__job_spec__free_unpacked(full, NULL);
    }
    if (spec != NULL) {
        psgd__v1__job_spec__free_unpacked(spec, NULL);
    }
    if (!ps_is_ok(&st)) {
        ps_spec_locate(path, &error);
        ps_cli_error(&error);
        return false;
    }
    return true;
}

/* Returns true after a message if a flag of checkpoints or recovery was given, which only services
 * have. */
static bool refuse_loss_flags(const ps_spec_flags *flags)
{
    const struct {
        const char *flag, *text;
    } refused[] = {
        {"--checkpoint-every", flags->checkpoint_every},
        {"--checkpoint-seconds", flags->checkpoint_seconds},
        {"--checkpoint-keep", flags->checkpoint_keep},
        {"--recovery", flags->recovery},
        {"--max-restarts", flags->max_restarts},
        {"--on-divergence", flags->on_divergence},
        {"--max-rollbacks", flags->max_rollbacks},
        {"--replicas", flags->replicas},
        {"--replay-mib", flags->replay_mib},
        {"--workers-min", flags->workers_min},
        {"--workers-max", flags->workers_max},
    };

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (refused[i].text != NULL) {
            fprintf(stderr,
                    "psgd: %s: psgd train runs in one process, without checkpoints and recovery; "
                    "leave the flag out, or run the job on services by psgd submit\n",
                    refused[i].flag);
            return true;
        }
    }
    return false;
}

static bool prepare(ps_cli *cli, void *arg)
{
    training *t = arg;
    const char *path = cli->config->n_args > 0 ? cli->config->args[0] : NULL;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    t->cli = cli;
    if (t->plan_only && t->init_only) {
        fputs("psgd: --plan writes no files and --init-only writes a model; give one of them\n",
              stderr);
        return false;
    }
    if (refuse_loss_flags(&t->flags) || !make_plan(t, path)) {
        return false;
    }
    if (t->plan->compute != NULL && t->init_only) {
        fputs("psgd: --init-only: the job computes partitions and has no model\n", stderr);
        return false;
    }
    if (t->threads == 0) {
        t->threads = processors > 0 ? processors : 1;
    }
    if (t->threads > t->plan->spec->workers) {
        t->threads = t->plan->spec->workers;
    }
    snprintf(t->id, sizeof t->id, "%s-local", t->plan->spec->title);
    if (t->job_id == NULL) {
        t->job_id = t->id;
    }
    if (t->out == NULL) {
        t->out = t->job_id;
    }
    /* quiet: the job writes its log to a file, and the terminal shows progress */
    ps_log_init("psgd", PS_LOG_INFO, PS_LOG_JSON);
    ps_log_set_quiet(true);
    return true;
}

/* Writes a shape such as "128x784" to `text` and returns it. */
static const char *show_shape(const ps_shape *shape, char text[PS_SHOW_BYTES])
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < shape->rank && n < PS_SHOW_BYTES; i++) {
        n += (size_t)snprintf(text + n, PS_SHOW_BYTES - n, "%s%u", i > 0 ? "x" : "", shape->dim[i]);
    }
    return text;
}

/* Shows the model's variables in order, by the names that codec.variables uses. */
static void show_variables(const ps_plan *plan)
{
    const ps_layout *layout = &plan->layout;
    int width = 0;

    for (uint32_t v = 0; v < layout->variable_count; v++) {
        int n = (int)strlen(layout->variables[v].name);

        width = n > width ? n : width;
    }
    puts("variables");
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];
        char shape[PS_SHOW_BYTES];

        printf("  %-*s  %-16s %zu\n", width, var->name, show_shape(&var->shape, shape), var->size);
    }
}

static json_t *variables_json(const ps_plan *plan)
{
    json_t *list = json_array();

    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        json_t *shape = json_array();

        for (uint32_t i = 0; i < var->shape.rank; i++) {
            json_array_append_new(shape, json_integer(var->shape.dim[i]));
        }
        json_array_append_new(list, json_pack("{s:s, s:o, s:I}", "name", var->name, "shape", shape,
                                              "size", (json_int_t)var->size));
    }
    return list;
}

static void show_plan(const training *t)
{
    const ps_plan *plan = t->plan;
    ps_inprocess_job_memory m = ps_inprocess_job_get_memory(t->local);
    const ps_train_memory *w = &m.workers;
    size_t all = w->weights + w->gradients + w->optimizer + w->activations + w->samples +
                 w->rounds + m.servers + m.feedback;
    char text[9][PS_SHOW_BYTES];

    printf("job       %s\n", t->job_id);
    printf("plan      %u worker%s on %lld thread%s, %u server%s, %zu parameters, %llu steps of "
           "%llu samples\n",
           plan->spec->workers, plan->spec->workers == 1 ? "" : "s", (long long)t->threads,
           t->threads == 1 ? "" : "s", plan->spec->pservers, plan->spec->pservers == 1 ? "" : "s",
           plan->layout.param_count, (unsigned long long)plan->total_steps,
           (unsigned long long)plan->spec->block_size * plan->assignment->block_count);
    printf("memory    %s: weights %s, gradients %s, optimizer %s, activations %s, samples %s, "
           "rounds %s, servers %s, feedback %s\n",
           ps_show_size(all, text[0]), ps_show_size(w->weights, text[1]),
           ps_show_size(w->gradients, text[2]), ps_show_size(w->optimizer, text[3]),
           ps_show_size(w->activations, text[4]), ps_show_size(w->samples, text[5]),
           ps_show_size(w->rounds, text[8]), ps_show_size(m.servers, text[6]),
           ps_show_size(m.feedback, text[7]));
    if (t->plan_only) {
        show_variables(plan);
    }
    fflush(stdout);
}

static void print_plan(const training *t)
{
    ps_inprocess_job_memory m = ps_inprocess_job_get_memory(t->local);
    json_t *json;

    if (t->cli->format == PS_FORMAT_TEXT) {
        show_plan(t);
        return;
    }
    json = json_pack("{s:s, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}}",
                     "job_id", t->job_id, "parameters", (json_int_t)t->plan->layout.param_count,
                     "workers", (json_int_t)t->plan->spec->workers, "threads",
                     (json_int_t)t->threads, "steps", (json_int_t)t->plan->total_steps, "memory",
                     "weights", (json_int_t)m.workers.weights, "gradients",
                     (json_int_t)m.workers.gradients, "optimizer", (json_int_t)m.workers.optimizer,
                     "activations", (json_int_t)m.workers.activations, "samples",
                     (json_int_t)m.workers.samples, "rounds", (json_int_t)m.workers.rounds,
                     "servers", (json_int_t)m.servers, "feedback", (json_int_t)m.feedback);
    json_object_set_new(json, "variables", variables_json(t->plan));
    ps_cli_json_value(t->cli, json);
    json_decref(json);
}

/* --- meanwhile ---------------------------------------------------------------- */

static void tell(training *t, const Psgd__V1__Job *job, Psgd__V1__JobEventKind kind)
{
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Psgd__V1__Job short_job = *job;

    if (kind != PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE) {
        short_job.spec = NULL;
        short_job.n_artifacts = 0;
    }
    event.sequence = ++t->sequence;
    event.kind = kind;
    event.job = &short_job;
    ps_cli_json(t->cli, &event.base);
}

static void show_evaluations(training *t)
{
    const Psgd__V1__Job *job;

    while (t->computing == NULL && (job = ps_inprocess_job_next_evaluation(t->local)) != NULL) {
        ps_train_trackers_result(&t->trackers, job);
        if (t->cli->format == PS_FORMAT_JSONL) {
            tell(t, job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS);
        } else if (t->cli->format == PS_FORMAT_TEXT) {
            char text[TEXT_BYTES];

            ps_show_result(job, text, sizeof text);
            ps_live_line(&t->live, "test set: %s", text);
        }
    }
}

static void show_now(training *t)
{
    const Psgd__V1__Job *job;

    show_evaluations(t);
    job = job_now(t);
    ps_train_trackers_progress(&t->trackers, job);
    if (t->cli->format == PS_FORMAT_JSONL) {
        tell(t, job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_PROGRESS);
    } else if (t->cli->format == PS_FORMAT_TEXT) {
        ps_live_progress(&t->live, job->progress, ps_clock_us());
    }
}

static void on_tick(ps_event *self, bool ok)
{
    training *t = PS_CONTAINER_OF(self, training, tick.event);

    if (ok && !t->cli->ended) {
        show_now(t);
        ps_loop_after(t->cli->loop, &t->tick, TICK_US);
    }
}

static void on_interrupt(void *arg)
{
    training *t = arg;

    t->waits_until_us = 0;
    if (t->computing != NULL) {
        ps_inprocess_compute_stop(t->computing);
    } else {
        ps_inprocess_job_stop(t->local);
    }
}

/* --- after -------------------------------------------------------------------- */

static void show_took(const Psgd__V1__Job *job)
{
    char rate[PS_SHOW_BYTES], peak[PS_SHOW_BYTES];

    printf("took      %.1f s, %s samples/s, %s of memory at most\n",
           ps_show_seconds(job->end_time) - ps_show_seconds(job->start_time),
           ps_show_rate(job->progress->samples_per_second, rate),
           ps_show_size(ps_inprocess_job_peak_bytes(), peak));
}

static void show_end(const training *t, const Psgd__V1__Job *job)
{
    char text[TEXT_BYTES];

    if (t->computing != NULL) {
        printf("took      %.1f s\n",
               ps_show_seconds(job->end_time) - ps_show_seconds(job->start_time));
    } else if (!t->init_only) {
        show_took(job);
    }
    if (job->state == PSGD__V1__JOB_STATE__JOB_STATE_DONE && job->message[0] != '\0') {
        printf("end       %s\n", job->message);
    }
    if (job->n_result > 0) {
        ps_show_result(job, text, sizeof text);
        printf("result    %s\n", text);
    }
    for (size_t i = 0; i < job->n_tracker_runs; i++) {
        ps_show_tracker(job->tracker_runs[i], text, sizeof text);
        puts(text);
    }
    ps_show_files(job);
    printf("in        %s\n", t->out);
}

/* Prints how the job has ended, and the failure in `st` if there is one. Ends the program with the
 * exit code for `st`. */
static void end(training *t, const ps_status *st)
{
    ps_cli *cli = t->cli;
    Psgd__V1__Job job = *job_now(t);
    ps_exit code = PS_EXIT_OK;

    ps_train_trackers_stop(&t->trackers, &job);
    if (cli->format == PS_FORMAT_TEXT) {
        show_end(t, &job);
    } else if (cli->format == PS_FORMAT_JSONL) {
        tell(t, &job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE);
    } else {
        ps_cli_json(cli, &job.base);
    }
    if (!ps_is_ok(st)) {
        ps_cli_status(st);
        code = st->code == PS_CANCELLED ? PS_EXIT_INTERRUPTED : PS_EXIT_SERVER;
    }
    ps_cli_end(cli, code);
}

/* Ends the program when the trackers have everything, or waits_until_us has passed. Else looks
 * again after TICK_US. */
static void on_wait(ps_event *self, bool ok)
{
    training *t = PS_CONTAINER_OF(self, training, tick.event);

    if (!ok || t->cli->ended) {
        return;
    }
    if (ps_train_trackers_is_done(&t->trackers) || ps_clock_us() > t->waits_until_us) {
        end(t, &t->status);
    } else {
        ps_loop_after(t->cli->loop, &t->tick, TICK_US);
    }
}

static void on_over(ps_event *self, bool ok)
{
    training *t = PS_CONTAINER_OF(self, training, over);

    (void)ok;
    ps_loop_cancel(t->cli->loop, &t->tick);
    show_now(t);
    ps_live_clear(&t->live);
    t->status = t->computing != NULL ? ps_inprocess_compute_finish(t->computing)
                                     : ps_inprocess_job_finish(t->local);
    ps_train_trackers_end(&t->trackers, job_now(t), t->out);
    t->waits_until_us = ps_clock_us() + PS_TRAIN_TRACKERS_WAIT_US;
    t->tick.event.fire = on_wait;
    on_wait(&t->tick.event, true);
}

/* Posts `over` to the loop. Called when the job is over, on any thread, most often on that of the
 * worker that ends last. */
static void post_over(void *arg)
{
    training *t = arg;

    ps_loop_post(t->cli->loop, &t->over);
}

/* Prepares the events by which progress is shown until the job is over, and Ctrl-C. */
static void follow(training *t)
{
    t->over.fire = on_over;
    t->tick.event.fire = on_tick;
    ps_live_init(&t->live);
    t->live.computes = t->computing != NULL;
    t->cli->on_interrupt = on_interrupt;
    t->cli->arg = t;
}

/* Prints the plan of a job that computes partitions and, without --plan, starts the job. */
static void start_computing(training *t)
{
    const ps_inprocess_compute_conf conf = {
        .plan = t->plan,
        .job_id = t->job_id,
        .folder = t->out,
        .data_path = t->data_path,
        .threads = (uint32_t)t->threads,
        .done = post_over,
        .arg = t,
    };
    ps_status st;

    if (t->cli->format == PS_FORMAT_TEXT) {
        printf("job       %s\nplan      %lld thread%s, %llu partitions\n", t->job_id,
               (long long)t->threads, t->threads == 1 ? "" : "s",
               (unsigned long long)t->plan->total_steps);
        fflush(stdout);
    }
    if (t->plan_only) {
        ps_cli_end(t->cli, PS_EXIT_OK);
        return;
    }
    follow(t);
    st = ps_inprocess_compute_start(&conf, &t->computing);
    if (ps_is_ok(&st)) {
        st = ps_train_trackers_start(&t->trackers, job_now(t));
    }
    if (!ps_is_ok(&st)) {
        ps_cli_end(t->cli, ps_cli_status(&st));
        return;
    }
    ps_loop_after(t->cli->loop, &t->tick, TICK_US);
}

static void start(ps_cli *cli, void *arg)
{
    training *t = arg;
    ps_inprocess_job_conf conf = {
        .plan = t->plan,
        .job_id = t->job_id,
        .folder = t->plan_only ? NULL : t->out,
        .data_path = t->data_path,
        .threads = (uint32_t)t->threads,
        .done = post_over,
        .arg = t,
    };
    ps_status st;

    if (t->plan->compute != NULL) {
        start_computing(t);
        return;
    }
    st = ps_inprocess_job_create(&conf, &t->local);
    if (ps_is_ok(&st) && (cli->format == PS_FORMAT_TEXT || t->plan_only)) {
        print_plan(t);
    }
    if (!ps_is_ok(&st) || t->plan_only) {
        ps_cli_end(cli, ps_is_ok(&st) ? PS_EXIT_OK : ps_cli_status(&st));
        return;
    }
    if (t->init_only) {
        st = ps_inprocess_job_write_initial(t->local);
        end(t, &st);
        return;
    }
    follow(t);
    st = ps_train_trackers_start(&t->trackers, job_now(t));
    if (ps_is_ok(&st)) {
        st = ps_inprocess_job_start(t->local);
    }
    if (!ps_is_ok(&st)) {
        ps_cli_end(cli, ps_cli_status(&st));
        return;
    }
    ps_loop_after(cli->loop, &t->tick, TICK_US);
}

static void fini(void *arg)
{
    training *t = arg;

    ps_train_trackers_fini(&t->trackers);
    ps_inprocess_job_destroy(t->local);
    ps_inprocess_compute_destroy(t->computing);
    ps_plan_destroy(t->plan);
}

const ps_subcommand ps_subcommand_train = {
    .command = {.name = "psgd train",
                .summary =
                    "Trains a job in this process, without services: workers are threads, servers "
                    "are shards in memory, and codecs are applied as on a cluster. Under bsp the "
                    "model has the same bits as on a cluster, for any number of threads. Files go "
                    "into --out. Ctrl-C ends the job and keeps the model and the reports so "
                    "far.",
                .usage = "[options] [FILE]",
                .args_max = 1,
                .examples = "psgd train --preset tutorial-glyphs\n"
                            "psgd train job.yaml --threads 2 --out run1\n"
                            "psgd train --preset tutorial --data-path /srv/data --codec int8\n"
                            "psgd train job.yaml --plan\n"
                            "psgd train job.yaml --init-only --out initial"},
    .options = options,
    .takes_job = true,
    .options_size = sizeof(training),
    .is_local = true,
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
