/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_files.c - see inprocess.h: writes the files that a coordinator and nodes would leave
 * of a job. */
#include "common/inprocess/inprocess_impl.h"

#include "common/artifact/events.h"
#include "common/artifact/manifest.h"
#include "common/artifact/report.h"
#include "common/artifact/round_record.h"
#include "common/artifact/weights.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/counts.h"
#include "common/job/describe.h"
#include "common/job/plan.h"
#include "common/rpc/pbjson.h"
#include "common/trace/trace_file.h"
#include "common/train/counted.h"
#include "common/train/merge.h"

#include "psgd/v1/node.pb-c.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1280, FILES_OF_WORKER = 6, FILES_OF_JOB = 6, LOG_BYTES_MAX = 64 << 20 };

#define REPORT PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT
#define EVENTS PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS
#define MODEL PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL
#define LOG PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG
#define SUMMARY PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY

/* --- the log ------------------------------------------------------------------ */

/* Writes a line of the log, unless the log has LOG_BYTES_MAX bytes. A failure is ignored, because
 * it could be reported nowhere. */
static void add_line(void *arg, ps_log_level level, const char *line)
{
    ps_inprocess_job *run = arg;

    (void)level;
    if (ftell(run->log) < LOG_BYTES_MAX) {
        fputs(line, run->log);
        fputc('\n', run->log);
        fflush(run->log);
    }
}

ps_status inprocess_log_begin(ps_inprocess_job *run)
{
    char path[PATH_BYTES];
    ps_status st;

    ps_artifact_name(run->log_name, sizeof run->log_name, "LOG", run->plan->spec->title, "local",
                     ".jsonl");
    st = ps_path_join(path, sizeof path, run->conf.folder, run->log_name);
    if (!ps_is_ok(&st)) {
        return st;
    }
    run->log = fopen(path, "we");
    if (run->log == NULL) {
        return ps_fail_errno(errno, "open the job's log %s", PS_PATH_SHOWN(path));
    }
    ps_log_set_sink(add_line, run);
    return ps_ok();
}

void inprocess_log_end(ps_inprocess_job *run)
{
    if (run->log != NULL) {
        ps_log_set_sink(NULL, NULL);
        fclose(run->log);
        run->log = NULL;
    }
}

/* --- the list ----------------------------------------------------------------- */

static ps_status list(ps_inprocess_job *run, const char *name, Psgd__V1__ArtifactKind kind,
                      const char *node_id)
{
    inprocess_file *file = &run->files[run->file_count];
    ps_manifest_file measured = {.name = name};
    ps_status st = ps_manifest_measure(run->conf.folder, &measured);

    if (!ps_is_ok(&st)) {
        return st;
    }
    psgd__v1__artifact__init(&file->artifact);
    snprintf(file->name, sizeof file->name, "%s", name);
    snprintf(file->sha256, sizeof file->sha256, "%s", measured.sha256);
    snprintf(file->node_id, sizeof file->node_id, "%s", node_id);
    file->artifact.name = file->name;
    file->artifact.sha256 = file->sha256;
    file->artifact.node_id = file->node_id;
    file->artifact.kind = kind;
    file->artifact.size = measured.size;
    run->file_ptrs[run->file_count++] = &file->artifact;
    return ps_ok();
}

static ps_status list_if_there(ps_inprocess_job *run, const char *prefix, const char *rank,
                               const char *suffix, Psgd__V1__ArtifactKind kind)
{
    char name[INPROCESS_NAME_BYTES], path[PATH_BYTES], node_id[24];
    ps_status st;

    ps_artifact_name(name, sizeof name, prefix, run->plan->spec->title, rank, suffix);
    st = ps_path_join(path, sizeof path, run->conf.folder, name);
    if (!ps_is_ok(&st) || access(path, F_OK) != 0) {
        return st;
    }
    snprintf(node_id, sizeof node_id, "worker-%s", rank);
    return list(run, name, kind, node_id);
}

static ps_status list_workers(ps_inprocess_job *run)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < run->worker_count && ps_is_ok(&st); i++) {
        char rank[16];

        snprintf(rank, sizeof rank, "%u", i);
        st = list_if_there(run, "TR", rank, ".csv", REPORT);
        if (ps_is_ok(&st)) {
            st = list_if_there(run, "EV", rank, ".csv", REPORT);
        }
        if (ps_is_ok(&st)) {
            st = list_if_there(run, "TB", rank, "/" PS_EVENTS_NAME, EVENTS);
        }
        if (ps_is_ok(&st)) {
            st = list_if_there(run, "VOCAB", rank, ".txt", MODEL);
        }
        if (ps_is_ok(&st) && i == 0 && ps_is_ok(&run->result)) {
            st = list_if_there(run, "MODEL", rank, ".safetensors", MODEL);
            if (ps_is_ok(&st)) {
                st = list_if_there(run, "MODEL", rank, ".onnx", MODEL);
            }
        }
    }
    return st;
}

/* --- the files ---------------------------------------------------------------- */

/* Merges the workers' parts of the record of rounds, and removes the parts. */
static ps_status write_rounds(ps_inprocess_job *run)
{
    char **paths = ps_xcalloc(run->worker_count, sizeof *paths);
    char name[INPROCESS_NAME_BYTES], path[PATH_BYTES];
    const char *metrics[PS_METRICS_MAX];
    ps_rounds_parts parts = {.ranks = run->worker_count,
                             .paths = paths,
                             .metrics = metrics,
                             .metric_count = run->plan->metric_count,
                             .has_shares = run->plan->spec->split_evaluation};
    bool is_written = false;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < run->worker_count && ps_is_ok(&st); i++) {
        char rank[16];

        snprintf(rank, sizeof rank, "%u", i);
        ps_artifact_name(name, sizeof name, PS_ROUNDS_PREFIX, run->plan->spec->title, rank,
                         PS_ROUNDS_SUFFIX);
        st = ps_path_join(path, sizeof path, run->conf.folder, name);
        paths[i] = ps_xstrdup(path);
    }
    for (size_t k = 0; k < parts.metric_count; k++) {
        metrics[k] = run->plan->metrics[k].metric->name;
    }
    ps_rounds_name(name, sizeof name, run->plan->spec->title);
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, run->conf.folder, name);
    }
    if (ps_is_ok(&st)) {
        st = ps_rounds_merge(&parts, path, &is_written);
    }
    for (uint32_t i = 0; i < run->worker_count; i++) {
        if (ps_is_ok(&st) && paths[i] != NULL) {
            (void)unlink(paths[i]); /* may fail: a job that did not begin has no part */
        }
        free(paths[i]);
    }
    free(paths);
    return ps_is_ok(&st) && is_written ? list(run, name, REPORT, "") : st;
}

/* Writes the timeline of all workers. Without room for it the other files are still written. */
static ps_status write_trace(ps_inprocess_job *run)
{
    ps_trace_track *tracks = ps_xcalloc(run->worker_count, sizeof *tracks);
    char name[INPROCESS_NAME_BYTES], path[PATH_BYTES], part[PATH_BYTES], *parts[] = {part};
    bool is_written = false;
    ps_status st = ps_path_join(part, sizeof part, run->conf.folder, PS_TRACE_PART);

    for (uint32_t i = 0; i < run->worker_count; i++) {
        tracks[i] =
            ps_trace_worker(ps_trainer_trace(run->workers[i].trainer), i, run->worker_count);
    }
    ps_artifact_name_of_job(name, sizeof name, PS_TRACE_PREFIX, run->plan->spec->title,
                            PS_TRACE_SUFFIX);
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, run->conf.folder, name);
    }
    if (ps_is_ok(&st)) {
        st = ps_trace_write_part(part, tracks, run->worker_count, NULL);
    }
    if (ps_is_ok(&st)) {
        st = ps_trace_merge(parts, 1, path, &is_written);
    }
    (void)unlink(part);
    free(tracks);
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "psgd", "no timeline: %s", st.text);
    }
    return is_written ? list(run, name, REPORT, "") : ps_ok();
}

static ps_status add_bytes(void *arg, const void *bytes, size_t len)
{
    return ps_file_writer_add(arg, bytes, len);
}

/* Writes the sparse tables, each with the rows of all servers. */
static ps_status write_tables(ps_inprocess_job *run)
{
    const ps_plan *plan = run->plan;
    ps_status st = ps_ok();

    for (uint32_t t = 0; t < ps_plan_table_files(plan) && ps_is_ok(&st); t++) {
        char name[INPROCESS_NAME_BYTES], path[PATH_BYTES];
        ps_file_writer writer;

        ps_table_file_name(plan, t, 0, name, sizeof name);
        st = ps_path_join(path, sizeof path, run->conf.folder, name);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_open(&writer, path);
        }
        if (!ps_is_ok(&st)) {
            return st;
        }
        st = ps_table_save(ps_tables_at(ps_store_tables(run->parts.part[0].store), t),
                           ps_merge_table_kind(plan), add_bytes, &writer);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_commit(&writer);
        } else {
            ps_file_writer_abandon(&writer);
        }
        if (ps_is_ok(&st)) {
            st = list(run, name, MODEL, "");
        }
    }
    return st;
}

static bool is_finite(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

/* Writes the model, after training has ended, and with servers the sparse tables. Copies the
 * servers' weights to worker 0's memory of weights; in a mesh they are there already. If the job
 * was stopped or failed, some variables may be a step ahead of others. */
static ps_status write_model(ps_inprocess_job *run)
{
    const ps_layout *layout = &run->plan->layout;
    float *block = run->workers[0].weights;
    char name[INPROCESS_NAME_BYTES], path[PATH_BYTES], *spec = ps_plan_describe(run->plan);
    const ps_meta meta[] = {{"job", run->conf.job_id},
                            {"title", run->plan->spec->title},
                            {"producer", "psgd " PS_VERSION},
                            {PS_DESCRIPTION_KEY, spec}};
    ps_status st;

    if (run->server != NULL) {
        ps_wire_parts_take_weights(&run->parts, block);
    }
    ps_artifact_name(name, sizeof name, "MODEL", run->plan->spec->title,
                     run->server != NULL ? "ps" : "0", ".safetensors");
    st = ps_path_join(path, sizeof path, run->conf.folder, name);
    if (ps_is_ok(&st) && !is_finite(block, layout->param_count)) {
        st = ps_fail(PS_DATA_LOSS, "no model: its weights are not finite");
        run->has_diverged = true;
    }
    if (ps_is_ok(&st)) {
        st = ps_weights_check_finite(layout->stored, layout->stored_count, block);
    }
    if (ps_is_ok(&st)) {
        st = ps_weights_write(path, layout->stored, layout->stored_count, block, meta,
                              sizeof meta / sizeof meta[0]);
    }
    free(spec);
    if (ps_is_ok(&st)) {
        st = list(run, name, MODEL, "");
    }
    return ps_is_ok(&st) && run->server != NULL ? write_tables(run) : st;
}

/* Returns the counters of worker `rank` as JSON, as an entry of `ranks` in the coordinator's
 * summary.
 */
static json_t *rank_json(ps_inprocess_job *run, uint32_t rank)
{
    Psgd__V1__WorkerProgress progress = PSGD__V1__WORKER_PROGRESS__INIT;
    ps_counts counts = inprocess_counts_of(run, &run->workers[rank]);

    progress.rank = rank;
    ps_counts_put(&counts, PS_OF_WORKER, &progress.base);
    return ps_pb_to_json(&progress.base, PS_PB_DEFAULTS);
}

/* Copies the servers' counters to the job. To be called before write_model, which empties the
 * servers' stores. */
static void count_servers(ps_inprocess_job *run)
{
    ps_counts *counts = &run->server_counts;
    ps_store_counters store = ps_wire_parts_counters(&run->parts);
    ps_table_counters rows = {0};
    double version = INFINITY;

    for (uint32_t i = 0; i < run->parts.count; i++) {
        ps_table_counters part = ps_store_table_counters(run->parts.part[i].store);

        ps_table_counters_add(&rows, &part);
    }
    *counts = ps_counted_by_store(&store, &rows);
    memcpy(run->staleness_bins, store.staleness_bins, sizeof run->staleness_bins);
    counts->v[PS_COUNT_PULLS_WAITED] = (double)ps_wire_server_waits(run->server);
    for (uint32_t i = 0; i < run->parts.count; i++) {
        const ps_store *part = run->parts.part[i].store;

        counts->v[PS_COUNT_OPEN] += (double)ps_store_open(part);
        if (ps_store_value_count(part) > 0) {
            version = fmin(version, (double)ps_store_clock(part));
        }
    }
    counts->v[PS_COUNT_VERSION] = isinf(version) ? 0 : version;
    /* In one process servers receive just what workers send, so both have the same traffic. */
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_counts worker = inprocess_counts_of(run, &run->workers[i]);

        for (size_t k = PS_COUNT_BYTES_UP; k <= PS_COUNT_MESSAGES_DOWN; k++) {
            counts->v[k] += worker.v[k];
        }
    }
}

static json_t *servers_json(ps_inprocess_job *run)
{
    Psgd__V1__ServerCounters counters = PSGD__V1__SERVER_COUNTERS__INIT;
    json_t *json;

    ps_counts_put(&run->server_counts, PS_OF_SERVER, &counters.base);
    counters.staleness_bins = run->staleness_bins;
    counters.n_staleness_bins = PS_STALENESS_BINS;
    json = ps_pb_to_json(&counters.base, PS_PB_DEFAULTS);
    /* One entry stands for all servers together, so it does not say which worker did what. */
    json_object_del(json, "workers");
    return json;
}

/* Returns the counters of each worker, and of all servers together if there are any, in the form of
 * the coordinator's summary. */
static json_t *nodes_json(ps_inprocess_job *run)
{
    json_t *nodes = json_array();

    for (uint32_t i = 0; i < run->worker_count; i++) {
        char id[24];

        snprintf(id, sizeof id, "worker-%u", i);
        json_array_append_new(nodes,
                              json_pack("{s:s, s:s, s:i, s:[o]}", "node_id", id, "role", "worker",
                                        "rank", (int)i, "ranks", rank_json(run, i)));
    }
    if (run->server != NULL) {
        json_array_append_new(nodes, json_pack("{s:s, s:s, s:o}", "node_id", "servers", "role",
                                               "pserver", "counters", servers_json(run)));
    }
    return nodes;
}

static ps_status write_summary(ps_inprocess_job *run)
{
    Psgd__V1__Job job = *ps_inprocess_job_now(run);
    char path[PATH_BYTES], *text;
    json_t *root;
    ps_status st = ps_path_join(path, sizeof path, run->conf.folder, "summary.json");

    if (!ps_is_ok(&st)) {
        return st;
    }
    job.n_artifacts = 0; /* the manifest lists the job's files */
    root = ps_pb_to_json(&job.base, PS_PB_TERSE);
    json_object_set_new(root, "seconds",
                        json_real((double)(run->ended_wall_us - run->began_wall_us) * 1e-6));
    json_object_set_new(root, "peak_memory_bytes",
                        json_integer((json_int_t)ps_inprocess_job_peak_bytes()));
    json_object_set_new(root, "nodes", nodes_json(run));
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    if (text == NULL) {
        return ps_fail(PS_INTERNAL, "summary.json cannot be made");
    }
    st = ps_file_write(path, text, strlen(text));
    free(text);
    return ps_is_ok(&st) ? list(run, "summary.json", SUMMARY, "") : st;
}

static const char *kind_name(Psgd__V1__ArtifactKind kind)
{
    return kind == LOG      ? "log"
           : kind == REPORT ? "report"
           : kind == MODEL  ? "model"
           : kind == EVENTS ? "events"
                            : "summary";
}

static ps_status write_manifest(ps_inprocess_job *run)
{
    ps_manifest_file *files = ps_xcalloc(run->file_count + 1, sizeof *files);
    char path[PATH_BYTES];
    ps_status st = ps_path_join(path, sizeof path, run->conf.folder, "manifest.json");

    for (size_t i = 0; i < run->file_count; i++) {
        const inprocess_file *from = &run->files[i];

        files[i] = (ps_manifest_file){.name = from->name,
                                      .kind = kind_name(from->artifact.kind),
                                      .node_id = from->node_id,
                                      .size = from->artifact.size};
        memcpy(files[i].sha256, from->sha256, sizeof files[i].sha256);
    }
    if (ps_is_ok(&st)) {
        st = ps_manifest_write(path, files, run->file_count);
    }
    free(files);
    return ps_is_ok(&st) ? list(run, "manifest.json", SUMMARY, "") : st;
}

ps_status inprocess_write_files(ps_inprocess_job *run)
{
    size_t most =
        (size_t)run->worker_count * FILES_OF_WORKER + FILES_OF_JOB + ps_plan_table_files(run->plan);
    ps_status st;

    assert(run->files == NULL);
    run->files = ps_xcalloc(most, sizeof *run->files);
    run->file_ptrs = ps_xcalloc(most, sizeof(Psgd__V1__Artifact *));
    if (run->server != NULL) {
        count_servers(run);
    }
    st = list_workers(run);
    if (ps_is_ok(&st)) {
        st = write_rounds(run);
    }
    if (ps_is_ok(&st) && run->plan->spec->trace != NULL) {
        st = write_trace(run);
    }
    /* Without servers worker 0 has written the model already, if the job is complete. */
    if (ps_is_ok(&st) && (run->server != NULL || !ps_is_ok(&run->result))) {
        st = write_model(run);
        if (!ps_is_ok(&st) && !ps_is_ok(&run->result)) {
            ps_log(PS_LOG_WARN, "psgd", "%s", st.text);
            st = ps_ok(); /* the job's own failure was logged; the other files are still written */
        }
    }
    ps_log(PS_LOG_INFO, "psgd", "job %s: %s", run->conf.job_id,
           ps_is_ok(&run->result) ? "done" : run->result.text);
    inprocess_log_end(run);
    if (ps_is_ok(&st)) {
        st = list(run, run->log_name, LOG, "");
    }
    if (ps_is_ok(&st)) {
        st = write_summary(run);
    }
    return ps_is_ok(&st) ? write_manifest(run) : st;
}
