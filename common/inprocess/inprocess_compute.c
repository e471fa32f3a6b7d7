/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_compute.c - see inprocess_compute.h. */
#include "common/inprocess/inprocess_compute.h"

#include "common/artifact/manifest.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/computation.h"
#include "common/rpc/pbjson.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 3, PATH_BYTES = 1024 };

typedef struct computing {
    ps_inprocess_compute *run;
    pthread_t thread;
    bool has_thread;
} computing;

struct ps_inprocess_compute {
    ps_inprocess_compute_conf conf;
    ps_dataset *data;
    computing *threads; /* (conf.threads) */
    atomic_uint next, done, running;
    atomic_bool is_stopped;
    pthread_mutex_t mutex;   /* guards `executors` and `result` */
    ps_executor **executors; /* (conf.threads) to be stopped; NULL: the thread makes no calls */
    ps_status result;
    bool is_unstored;           /* result is that a file of the job could not be written */
    int64_t began_us, ended_us; /* wall clock */

    Psgd__V1__JobState state;
    Psgd__V1__Job job;
    Psgd__V1__Progress progress;
    Google__Protobuf__Timestamp began, ended;
    ps_manifest_file files[FILES];
    Psgd__V1__Artifact artifacts[FILES], *artifact_ptrs[FILES];
    size_t file_count;
};

static void fail(ps_inprocess_compute *run, const ps_status *st)
{
    pthread_mutex_lock(&run->mutex);
    if (ps_is_ok(&run->result)) {
        run->result = *st;
    }
    pthread_mutex_unlock(&run->mutex);
    ps_inprocess_compute_stop(run);
}

/* Lets ps_inprocess_compute_stop, on other threads, stop the executor of thread i, also within a
 * call; NULL: the thread makes no more calls. Returns whether the job goes on. */
static bool show(ps_inprocess_compute *run, size_t i, ps_executor *executor)
{
    bool goes_on;

    pthread_mutex_lock(&run->mutex);
    run->executors[i] = executor;
    goes_on = !atomic_load(&run->is_stopped);
    pthread_mutex_unlock(&run->mutex);
    return goes_on;
}

static ps_status compute(ps_inprocess_compute *run, ps_executor *executor, uint32_t part,
                         uint8_t *records)
{
    const ps_plan *plan = run->conf.plan;
    char name[PS_MERGE_NAME_BYTES], path[PATH_BYTES];
    ps_partition work;
    size_t n = 0;
    ps_status st;

    ps_compute_part(plan, run->data, part, &work);
    ps_part_name(name, part);
    st = ps_executor_map(executor, &work, plan->compute_params.v, records, &n);
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, run->conf.folder, name);
    }
    return ps_is_ok(&st) ? ps_file_write(path, records, n) : st;
}

static void *work(void *arg)
{
    computing *c = arg;
    ps_inprocess_compute *run = c->run;
    const ps_plan *plan = run->conf.plan;
    const ps_sandbox_budget budget = ps_compute_budget(plan);
    size_t i = (size_t)(c - run->threads);
    uint8_t *records = ps_xmalloc(PS_PART_RECORDS_MAX);
    ps_executor *executor = NULL;
    ps_status st = ps_executor_start(plan->compute, &budget, &executor);
    uint32_t part;

    while (ps_is_ok(&st) && show(run, i, executor) &&
           (part = atomic_fetch_add(&run->next, 1)) < plan->spec->compute->partitions) {
        st = compute(run, executor, part, records);
        atomic_fetch_add(&run->done, ps_is_ok(&st));
    }
    (void)show(run, i, NULL);
    if (!ps_is_ok(&st) && !atomic_load(&run->is_stopped)) {
        fail(run, &st);
    }
    ps_executor_end(executor);
    free(records);
    if (atomic_fetch_sub(&run->running, 1) == 1) {
        run->conf.done(run->conf.arg);
    }
    return NULL;
}

static ps_status load_data(ps_inprocess_compute *run)
{
    const ps_data_conf *conf = &run->conf.plan->data_conf;
    char folder[PATH_BYTES] = "";
    ps_status st = ps_ok();

    if (ps_data_file_count(conf) > 0) {
        if (run->conf.data_path == NULL || run->conf.data_path[0] == '\0') {
            return ps_fail(PS_NOT_FOUND, "data set %s: say where it is: --data-path or PSGD_DATA",
                           conf->source->name);
        }
        st = ps_path_below(folder, sizeof folder, run->conf.data_path, ps_data_folder(conf));
    }
    return ps_is_ok(&st) ? ps_data_load(conf, folder, run->conf.folder, &run->data) : st;
}

ps_status ps_inprocess_compute_start(const ps_inprocess_compute_conf *conf,
                                     ps_inprocess_compute **out)
{
    ps_inprocess_compute *run = ps_xcalloc(1, sizeof *run);
    ps_status st = ps_dir_make(conf->folder);

    run->conf = *conf;
    run->result = ps_ok();
    run->state = PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
    run->began_us = ps_clock_wall_us();
    run->threads = ps_xcalloc(conf->threads, sizeof *run->threads);
    run->executors = ps_xcalloc(conf->threads, sizeof(ps_executor *));
    pthread_mutex_init(&run->mutex, NULL);
    if (ps_is_ok(&st)) {
        st = load_data(run);
    }
    atomic_store(&run->running, conf->threads);
    for (uint32_t i = 0; i < conf->threads && ps_is_ok(&st); i++) {
        computing *c = &run->threads[i];

        c->run = run;
        c->has_thread = pthread_create(&c->thread, NULL, work, c) == 0;
        /* The last of the threads that run ends the job; this one does if none runs any more. */
        if (!c->has_thread) {
            ps_status why = ps_fail(PS_RESOURCE_EXHAUSTED, "no thread for worker %u", i);

            fail(run, &why);
            if (atomic_fetch_sub(&run->running, conf->threads - i) == conf->threads - i) {
                conf->done(conf->arg);
            }
            break;
        }
    }
    if (!ps_is_ok(&st)) {
        ps_inprocess_compute_destroy(run);
        return st;
    }
    *out = run;
    return st;
}

void ps_inprocess_compute_stop(ps_inprocess_compute *run)
{
    pthread_mutex_lock(&run->mutex);
    atomic_store(&run->is_stopped, true);
    for (uint32_t i = 0; i < run->conf.threads; i++) {
        if (run->executors[i] != NULL) {
            ps_executor_stop(run->executors[i]);
        }
    }
    pthread_mutex_unlock(&run->mutex);
}

static void set_time(Google__Protobuf__Timestamp *time, int64_t wall_us)
{
    google__protobuf__timestamp__init(time);
    time->seconds = wall_us / 1000000;
    time->nanos = (int32_t)(wall_us % 1000000) * 1000;
}

const Psgd__V1__Job *ps_inprocess_compute_now(ps_inprocess_compute *run)
{
    Psgd__V1__Job *job = &run->job;

    psgd__v1__job__init(job);
    psgd__v1__progress__init(&run->progress);
    job->id = (char *)(uintptr_t)run->conf.job_id;
    job->spec = run->conf.plan->spec;
    job->state = run->state;
    job->attempt = 1;
    if (run->state == PSGD__V1__JOB_STATE__JOB_STATE_FAILED) {
        job->reason = (char *)(uintptr_t)(run->is_unstored ? "STORE_FAILED" : "CODE_FAILED");
        job->message = run->result.text;
    }
    run->progress.step = atomic_load(&run->done);
    run->progress.total_steps = run->conf.plan->spec->compute->partitions;
    run->progress.workers_alive = run->progress.workers_total = run->conf.plan->spec->workers;
    job->progress = &run->progress;
    set_time(&run->began, run->began_us);
    job->create_time = job->start_time = &run->began;
    if (run->ended_us > 0) {
        set_time(&run->ended, run->ended_us);
        job->end_time = &run->ended;
    }
    job->artifacts = run->artifact_ptrs;
    job->n_artifacts = run->file_count;
    return job;
}

/* ---- The files ---- */

static ps_status list(ps_inprocess_compute *run, const char *name, Psgd__V1__ArtifactKind kind)
{
    ps_manifest_file *file = &run->files[run->file_count];
    Psgd__V1__Artifact *artifact = &run->artifacts[run->file_count];
    ps_status st;

    *file = (ps_manifest_file){
        .name = ps_xstrdup(name),
        .kind = kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT ? "report" : "summary",
        .node_id = ""};
    st = ps_manifest_measure(run->conf.folder, file);
    psgd__v1__artifact__init(artifact);
    artifact->name = (char *)(uintptr_t)file->name;
    artifact->sha256 = file->sha256;
    artifact->size = file->size;
    artifact->kind = kind;
    run->artifact_ptrs[run->file_count++] = artifact;
    return st;
}

static ps_status write_result(ps_inprocess_compute *run)
{
    ps_result_conf conf = ps_compute_result(run->conf.plan, run->conf.folder);
    char name[PS_NAME_MAX + 1], path[PATH_BYTES];
    uint64_t rows;
    ps_status st;

    conf.servers = 0; /* all records are here */
    ps_compute_result_name(run->conf.plan, name, sizeof name);
    st = ps_path_join(path, sizeof path, run->conf.folder, name);
    if (ps_is_ok(&st)) {
        st = ps_result_write(&conf, path, &rows);
    }
    return ps_is_ok(&st) ? list(run, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT) : st;
}

static void remove_records(const ps_inprocess_compute *run)
{
    char name[PS_MERGE_NAME_BYTES], path[PATH_BYTES];

    for (uint32_t i = 0; i < run->conf.plan->spec->compute->partitions; i++) {
        ps_status st;

        ps_part_name(name, i);
        st = ps_path_join(path, sizeof path, run->conf.folder, name);
        if (ps_is_ok(&st)) {
            (void)unlink(path);
        }
    }
}

static ps_status write_summary(ps_inprocess_compute *run)
{
    Psgd__V1__Job job = *ps_inprocess_compute_now(run);
    char path[PATH_BYTES], *text;
    json_t *root;
    ps_status st = ps_path_join(path, sizeof path, run->conf.folder, "summary.json");

    job.n_artifacts = 0; /* the manifest lists the job's files */
    root = ps_pb_to_json(&job.base, PS_PB_TERSE);
    json_object_set_new(root, "seconds", json_real((double)(run->ended_us - run->began_us) * 1e-6));
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    if (text == NULL) {
        return ps_fail(PS_INTERNAL, "summary.json cannot be made");
    }
    st = ps_is_ok(&st) ? ps_file_write(path, text, strlen(text)) : st;
    free(text);
    return ps_is_ok(&st) ? list(run, "summary.json", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY)
                         : st;
}

static ps_status write_manifest(ps_inprocess_compute *run)
{
    char path[PATH_BYTES];
    ps_status st = ps_path_join(path, sizeof path, run->conf.folder, "manifest.json");

    if (ps_is_ok(&st)) {
        st = ps_manifest_write(path, run->files, run->file_count);
    }
    return ps_is_ok(&st)
               ? list(run, "manifest.json", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY)
               : st;
}

ps_status ps_inprocess_compute_finish(ps_inprocess_compute *run)
{
    ps_status st;

    for (uint32_t i = 0; i < run->conf.threads; i++) {
        if (run->threads[i].has_thread) {
            pthread_join(run->threads[i].thread, NULL);
            run->threads[i].has_thread = false;
        }
    }
    if (ps_is_ok(&run->result) && atomic_load(&run->is_stopped)) {
        run->result = ps_fail(PS_CANCELLED, "the job was stopped");
    }
    if (ps_is_ok(&run->result)) {
        run->result = write_result(run);
        /* `reduce` and `finish` of the job's code run while it is written */
        run->is_unstored = !ps_is_ok(&run->result) && run->result.code != PS_FAILED_PRECONDITION;
    }
    remove_records(run);
    run->ended_us = ps_clock_wall_us();
    run->state = ps_is_ok(&run->result)             ? PSGD__V1__JOB_STATE__JOB_STATE_DONE
                 : run->result.code == PS_CANCELLED ? PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED
                                                    : PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    st = write_summary(run);
    if (ps_is_ok(&st)) {
        st = write_manifest(run);
    }
    if (!ps_is_ok(&st) && ps_is_ok(&run->result)) {
        run->result = st;
        run->is_unstored = true;
        run->state = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    }
    return run->result;
}

void ps_inprocess_compute_destroy(ps_inprocess_compute *run)
{
    if (run == NULL) {
        return;
    }
    for (size_t i = 0; i < run->file_count; i++) {
        free((void *)(uintptr_t)run->files[i].name);
    }
    ps_dataset_destroy(run->data);
    pthread_mutex_destroy(&run->mutex);
    free(run->threads);
    free(run->executors);
    free(run);
}
