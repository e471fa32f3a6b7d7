/* SPDX-License-Identifier: Apache-2.0 */
/* local_files.c - see local.h: the files of a job, those that its coordinator and
 * its nodes would have left. */
#include "common/local/local_impl.h"

#include "common/artifact/events.h"
#include "common/artifact/manifest.h"
#include "common/artifact/report.h"
#include "common/artifact/weights.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/describe.h"
#include "common/job/table.h"
#include "common/rpc/pbjson.h"
#include "common/train/merge.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1280, FILES_OF_WORKER = 5, FILES_OF_JOB = 4, LOG_BYTES_MAX = 64 << 20 };

#define REPORT PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT
#define EVENTS PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS
#define MODEL PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL
#define LOG PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG
#define SUMMARY PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY

/* --- the log ------------------------------------------------------------------ */

/* What cannot be written is left out: there is nobody to tell. */
static void add_line(void *arg, ps_log_level level, const char *line)
{
    ps_local_job *local = arg;

    (void)level;
    if (ftell(local->log) < LOG_BYTES_MAX) {
        fputs(line, local->log);
        fputc('\n', local->log);
        fflush(local->log);
    }
}

ps_status local_log_begin(ps_local_job *local)
{
    char path[PATH_BYTES];
    ps_status st;

    ps_artifact_name(local->log_name, sizeof local->log_name, "LOG", local->plan->spec->title,
                     "local", ".jsonl");
    st = ps_path_join(path, sizeof path, local->conf.folder, local->log_name);
    if (!ps_is_ok(&st)) {
        return st;
    }
    local->log = fopen(path, "we");
    if (local->log == NULL) {
        return ps_fail_errno(errno, "open the job's log %s", ps_path_tail(path));
    }
    ps_log_set_sink(add_line, local);
    return ps_ok();
}

void local_log_end(ps_local_job *local)
{
    if (local->log != NULL) {
        ps_log_set_sink(NULL, NULL);
        fclose(local->log);
        local->log = NULL;
    }
}

/* --- the list ----------------------------------------------------------------- */

static ps_status list(ps_local_job *local, const char *name, Psgd__V1__ArtifactKind kind,
                      const char *node_id)
{
    local_file *file = &local->files[local->file_count];
    ps_manifest_file measured = {.name = name};
    ps_status st = ps_manifest_measure(local->conf.folder, &measured);

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
    local->file_ptrs[local->file_count++] = &file->artifact;
    return ps_ok();
}

static ps_status list_if_there(ps_local_job *local, const char *prefix, const char *rank,
                               const char *suffix, Psgd__V1__ArtifactKind kind)
{
    char name[LOCAL_NAME_BYTES], path[PATH_BYTES], node_id[24];
    ps_status st;

    ps_artifact_name(name, sizeof name, prefix, local->plan->spec->title, rank, suffix);
    st = ps_path_join(path, sizeof path, local->conf.folder, name);
    if (!ps_is_ok(&st) || access(path, F_OK) != 0) {
        return st;
    }
    snprintf(node_id, sizeof node_id, "worker-%s", rank);
    return list(local, name, kind, node_id);
}

static ps_status list_workers(ps_local_job *local)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < local->worker_count && ps_is_ok(&st); i++) {
        char rank[16];

        snprintf(rank, sizeof rank, "%u", i);
        st = list_if_there(local, "TR", rank, ".csv", REPORT);
        if (ps_is_ok(&st)) {
            st = list_if_there(local, "EV", rank, ".csv", REPORT);
        }
        if (ps_is_ok(&st)) {
            st = list_if_there(local, "TB", rank, "/" PS_EVENTS_NAME, EVENTS);
        }
        if (ps_is_ok(&st) && i == 0 && ps_is_ok(&local->result)) {
            st = list_if_there(local, "MODEL", rank, ".safetensors", MODEL);
            if (ps_is_ok(&st)) {
                st = list_if_there(local, "MODEL", rank, ".onnx", MODEL);
            }
        }
    }
    return st;
}

/* --- the files ---------------------------------------------------------------- */

static ps_status add_bytes(void *arg, const void *bytes, size_t len)
{
    return ps_file_writer_add(arg, bytes, len);
}

/* The sparse tables, each with the rows of all servers. */
static ps_status write_tables(ps_local_job *local)
{
    const ps_plan *plan = local->plan;
    ps_status st = ps_ok();

    for (uint32_t t = 0; t < plan->table_count && ps_is_ok(&st); t++) {
        char name[LOCAL_NAME_BYTES], path[PATH_BYTES];
        ps_file_writer writer;

        ps_table_file_name(plan, t, 0, name, sizeof name);
        st = ps_path_join(path, sizeof path, local->conf.folder, name);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_open(&writer, path);
        }
        if (!ps_is_ok(&st)) {
            return st;
        }
        st = ps_table_save(ps_tables_at(local->parts.part[0].tables, t), ps_merge_table_kind(plan),
                           add_bytes, &writer);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_commit(&writer);
        } else {
            ps_file_writer_abandon(&writer);
        }
        if (ps_is_ok(&st)) {
            st = list(local, name, MODEL, "");
        }
    }
    return st;
}

/* Nobody trains any more: worker 0's block has room for the servers' weights. */
static ps_status write_model(ps_local_job *local)
{
    const ps_layout *layout = &local->plan->layout;
    float *block = local->workers[0].weights;
    char name[LOCAL_NAME_BYTES], path[PATH_BYTES], *spec = ps_plan_describe(local->plan);
    const ps_meta meta[] = {{"job", local->conf.job_id},
                            {"title", local->plan->spec->title},
                            {"producer", "psgd " PS_VERSION},
                            {PS_DESCRIPTION_KEY, spec}};
    ps_status st;

    ps_wire_parts_take_weights(&local->parts, block);
    ps_artifact_name(name, sizeof name, "MODEL", local->plan->spec->title, "ps", ".safetensors");
    st = ps_path_join(path, sizeof path, local->conf.folder, name);
    if (ps_is_ok(&st)) {
        st = ps_weights_write(path, layout->stored, layout->stored_count, block, meta,
                              sizeof meta / sizeof meta[0]);
    }
    free(spec);
    if (ps_is_ok(&st)) {
        st = list(local, name, MODEL, "");
    }
    return ps_is_ok(&st) ? write_tables(local) : st;
}

/* What each worker did, and all servers together, if there are any. */
static json_t *nodes_json(ps_local_job *local)
{
    const ps_store_counters *c = &local->counters;
    json_t *nodes = json_array();

    for (uint32_t i = 0; i < local->worker_count; i++) {
        ps_trainer_progress p = ps_trainer_get_progress(local->workers[i].trainer);
        ps_exchange_stats stats = ps_exchange_get_stats(local->workers[i].exchange);
        char id[24];

        snprintf(id, sizeof id, "worker-%u", i);
        json_array_append_new(nodes,
                              json_pack("{s:s, s:s, s:i, s:{s:I, s:I, s:I, s:I}}", "node_id", id,
                                        "role", "WORKER", "rank", (int)i, "progress", "step",
                                        (json_int_t)p.step, "samples", (json_int_t)p.samples,
                                        "bytes_up", (json_int_t)stats.bytes_up, "bytes_down",
                                        (json_int_t)stats.bytes_down));
    }
    if (local->server == NULL) {
        return nodes;
    }
    json_array_append_new(
        nodes, json_pack("{s:s, s:s, s:{s:I, s:I, s:I, s:I}}", "node_id", "servers", "role",
                         "PSERVER", "counters", "applied", (json_int_t)c->applied, "duplicates",
                         (json_int_t)c->duplicates, "staleness_max", (json_int_t)c->staleness_max,
                         "staleness_sum", (json_int_t)c->staleness_sum));
    return nodes;
}

static ps_status write_summary(ps_local_job *local)
{
    Psgd__V1__Job job = *ps_local_job_now(local);
    char path[PATH_BYTES], *text;
    json_t *root;
    ps_status st = ps_path_join(path, sizeof path, local->conf.folder, "summary.json");

    if (!ps_is_ok(&st)) {
        return st;
    }
    job.n_artifacts = 0; /* the manifest has them */
    root = ps_pb_to_json(&job.base, PS_PB_TERSE);
    json_object_set_new(root, "seconds",
                        json_real((double)(local->ended_wall_us - local->began_wall_us) * 1e-6));
    json_object_set_new(root, "peak_memory_bytes",
                        json_integer((json_int_t)ps_local_job_peak_bytes()));
    json_object_set_new(root, "nodes", nodes_json(local));
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    if (text == NULL) {
        return ps_fail(PS_INTERNAL, "summary.json cannot be made");
    }
    st = ps_file_write(path, text, strlen(text));
    free(text);
    return ps_is_ok(&st) ? list(local, "summary.json", SUMMARY, "") : st;
}

static const char *kind_name(Psgd__V1__ArtifactKind kind)
{
    return kind == LOG      ? "log"
           : kind == REPORT ? "report"
           : kind == MODEL  ? "model"
           : kind == EVENTS ? "events"
                            : "summary";
}

static ps_status write_manifest(ps_local_job *local)
{
    ps_manifest_file *files = ps_xcalloc(local->file_count + 1, sizeof *files);
    char path[PATH_BYTES];
    ps_status st = ps_path_join(path, sizeof path, local->conf.folder, "manifest.json");

    for (size_t i = 0; i < local->file_count; i++) {
        const local_file *from = &local->files[i];

        files[i] = (ps_manifest_file){.name = from->name,
                                      .kind = kind_name(from->artifact.kind),
                                      .node_id = from->node_id,
                                      .size = from->artifact.size};
        memcpy(files[i].sha256, from->sha256, sizeof files[i].sha256);
    }
    if (ps_is_ok(&st)) {
        st = ps_manifest_write(path, files, local->file_count);
    }
    free(files);
    return ps_is_ok(&st) ? list(local, "manifest.json", SUMMARY, "") : st;
}

ps_status local_write_files(ps_local_job *local)
{
    size_t most =
        (size_t)local->worker_count * FILES_OF_WORKER + FILES_OF_JOB + local->plan->table_count;
    ps_status st;

    assert(local->files == NULL);
    local->files = ps_xcalloc(most, sizeof *local->files);
    local->file_ptrs = ps_xcalloc(most, sizeof(Psgd__V1__Artifact *));
    if (local->server != NULL) {
        local->counters = ps_wire_parts_counters(&local->parts);
    }
    st = list_workers(local);
    if (ps_is_ok(&st) && ps_is_ok(&local->result) && local->server != NULL) {
        st = write_model(local);
    }
    ps_log(PS_LOG_INFO, "local", "job %s: %s", local->conf.job_id,
           ps_is_ok(&local->result) ? "done" : local->result.text);
    local_log_end(local);
    if (ps_is_ok(&st)) {
        st = list(local, local->log_name, LOG, "");
    }
    if (ps_is_ok(&st)) {
        st = write_summary(local);
    }
    return ps_is_ok(&st) ? write_manifest(local) : st;
}
