/* SPDX-License-Identifier: Apache-2.0 */
/* archive.c - see archive.h. */
#include "services/coordinator/io/archive.h"

#include "common/artifact/manifest.h"
#include "common/artifact/report.h"
#include "common/artifact/round_record.h"
#include "common/artifact/weights.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/job/computation.h"
#include "common/job/describe.h"
#include "common/trace/trace_file.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/log_files.h"
#include "services/coordinator/io/room.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The weights that all servers left, read slice by slice: each server left its slices in the
 * model's order. */
typedef struct model_parts {
    const ps_placement *placement;
    int *fds;       /* (server_count), by rank; -1: not open */
    uint32_t slice; /* the slice that is read next */
    uint32_t given; /* values of this slice that were read already */
} model_parts;

static ps_status open_part(const ps_placement *placement, const char *folder, uint32_t rank,
                           int *fd)
{
    off_t want = (off_t)(ps_placement_value_count(placement, rank) * sizeof(float));
    char name[32], path[PS_FOLDER_MAX + 40];
    struct stat facts;
    ps_status st;

    ps_artifacts_part_name(name, rank);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    st = ps_file_open(path, fd, &facts);
    if (ps_is_ok(&st) && facts.st_size != want) {
        st = ps_fail(PS_DATA_LOSS, "weights of server %u have %lld bytes instead of %lld", rank,
                     (long long)facts.st_size, (long long)want);
    }
    return st;
}

static void close_parts(model_parts *p)
{
    for (uint32_t rank = 0; rank < p->placement->server_count; rank++) {
        if (p->fds[rank] >= 0) {
            close(p->fds[rank]);
        }
    }
    free(p->fds);
}

static ps_status open_parts(const ps_placement *placement, const char *folder, model_parts *p)
{
    uint32_t count = placement->server_count;
    ps_status st = ps_ok();

    *p = (model_parts){.placement = placement, .fds = ps_xcalloc(count, sizeof *p->fds)};
    for (uint32_t rank = 0; rank < count; rank++) {
        p->fds[rank] = -1;
    }
    for (uint32_t rank = 0; rank < count && ps_is_ok(&st); rank++) {
        st = open_part(placement, folder, rank, &p->fds[rank]);
    }
    return st;
}

static ps_status read_all(int fd, void *bytes, size_t n)
{
    for (char *p = bytes; n > 0;) {
        ssize_t got = read(fd, p, n);

        if (got == 0) {
            return ps_fail(PS_DATA_LOSS, "the weights of a server became shorter");
        }
        if (got < 0 && errno != EINTR) {
            return ps_fail_errno(errno, "read the weights of a server");
        }
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
    return ps_ok();
}

/* Reads the next n values of the model. */
static ps_status read_values(void *arg, float *values, size_t n)
{
    model_parts *p = arg;
    const ps_layout *layout = p->placement->layout;
    ps_status st = ps_ok();

    while (n > 0 && ps_is_ok(&st)) {
        uint32_t left = layout->slices[p->slice].n - p->given;
        uint32_t some = n < left ? (uint32_t)n : left;

        st = read_all(p->fds[p->placement->server_of[p->slice]], values, some * sizeof *values);
        values += some;
        n -= some;
        p->given += some;
        if (p->given == layout->slices[p->slice].n) {
            p->slice++;
            p->given = 0;
        }
    }
    return st;
}

ps_status ps_archive_write_weights(const ps_plan *plan, const ps_placement *placement,
                                   const char *job_id, const char *folder, const char *name,
                                   ps_written *written)
{
    const ps_layout *layout = &plan->layout;
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2], *spec = ps_plan_describe(plan);
    const ps_meta meta[] = {{"job", job_id},
                            {"title", plan->spec->title},
                            {"producer", "psgd-coordinator " PS_VERSION},
                            {PS_DESCRIPTION_KEY, spec}};
    model_parts p;
    const ps_tensor_source source = {.read = read_values, .arg = &p};
    ps_status st = open_parts(placement, folder, &p);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (ps_is_ok(&st)) {
        st = ps_weights_write_from(path, layout->stored, layout->stored_count, meta,
                                   sizeof meta / sizeof meta[0], &source, written);
    }
    close_parts(&p);
    free(spec);
    return st;
}

static ps_status write_model(ps_archive *w)
{
    char name[PS_NAME_MAX + 1];
    ps_written written;
    ps_status st;

    ps_artifact_name(name, sizeof name, "MODEL", w->plan->spec->title, "ps", ".safetensors");
    st = ps_wrap(ps_room_for(w->folder, w->plan->layout.param_count * sizeof(float)), "%s", name);
    if (ps_is_ok(&st)) {
        st = ps_archive_write_weights(w->plan, w->placement, w->job->id, w->folder, name, &written);
    }
    if (ps_is_ok(&st)) {
        ps_job_add_artifact(w->job, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL,
                            written.size, written.sha256, "");
    }
    return st;
}

static ps_status list_file(ps_archive *w, const char *name, Psgd__V1__ArtifactKind kind,
                           const char *node_id)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2], hex[PS_SHA256_HEX_BYTES];
    uint64_t size = 0;
    ps_status st;

    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    st = ps_sha256_of_file(path, hex, &size);
    if (ps_is_ok(&st)) {
        ps_job_add_artifact(w->job, name, kind, size, hex, node_id);
    }
    return st;
}

/* Merges the records of all partitions, or those that servers have reduced, into the result of a
 * job that computes, and adds it to the job's files. */
static ps_status write_result(ps_archive *w)
{
    const ps_result_conf conf = ps_compute_result(w->plan, w->folder);
    char name[PS_NAME_MAX + 1], path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    uint64_t rows = 0;
    ps_status st;

    ps_compute_result_name(w->plan, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    st = ps_result_write(&conf, path, &rows);
    return ps_is_ok(&st) ? list_file(w, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, "")
                         : st;
}

/* Removes the files with the records of partitions. */
static void remove_records(const ps_archive *w)
{
    char path[PS_FOLDER_MAX + 40], part[PS_MERGE_NAME_BYTES];

    for (uint32_t i = 0; i < w->plan->spec->compute->partitions; i++) {
        ps_part_name(part, i);
        snprintf(path, sizeof path, "%s/%s", w->folder, part);
        unlink(path);
    }
}

static void remove_part(const ps_archive *w, void (*name_of)(char out[32], uint32_t rank),
                        uint32_t rank)
{
    char path[PS_FOLDER_MAX + 40], part[32];
    ps_status st;

    name_of(part, rank);
    snprintf(path, sizeof path, "%s/%s", w->folder, part);
    st = ps_dir_remove(path);
    (void)st; /* a failure does not matter: the file only takes disk space */
}

/* Removes the parts that nodes left: when model, record of rounds and timeline were made of them,
 * or if these cannot be made. */
static void remove_parts(const ps_archive *w)
{
    for (uint32_t rank = 0; rank < w->placement->server_count; rank++) {
        remove_part(w, ps_artifacts_part_name, rank);
        remove_part(w, ps_artifacts_server_trace_name, rank);
        remove_part(w, ps_reduced_name, rank);
    }
    for (uint32_t rank = 0; rank < w->plan->spec->workers; rank++) {
        remove_part(w, ps_artifacts_rounds_name, rank);
        remove_part(w, ps_artifacts_worker_trace_name, rank);
    }
}

/* Makes the record of rounds of the parts that ranks left, and adds it to the job's files. */
static ps_status write_rounds(ps_archive *w)
{
    const ps_plan *plan = w->plan;
    char **paths = ps_xcalloc(plan->spec->workers, sizeof *paths);
    char name[PS_NAME_MAX + 1], path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    const char *metrics[PS_METRICS_MAX];
    ps_rounds_parts parts = {.ranks = plan->spec->workers,
                             .paths = paths,
                             .metrics = metrics,
                             .metric_count = plan->metric_count,
                             .has_shares = plan->spec->split_evaluation};
    bool is_written = false;
    ps_status st;

    for (uint32_t rank = 0; rank < parts.ranks; rank++) {
        char part[32];

        ps_artifacts_rounds_name(part, rank);
        snprintf(path, sizeof path, "%s/%s", w->folder, part);
        paths[rank] = ps_xstrdup(path);
    }
    for (size_t k = 0; k < plan->metric_count; k++) {
        metrics[k] = plan->metrics[k].metric->name;
    }
    ps_rounds_name(name, sizeof name, plan->spec->title);
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    st = ps_rounds_merge(&parts, path, &is_written);
    if (ps_is_ok(&st) && is_written) {
        st = list_file(w, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, "");
    }
    for (uint32_t rank = 0; rank < parts.ranks; rank++) {
        free(paths[rank]);
    }
    free(paths);
    return st;
}

ps_status ps_archive_merge_trace(const char *folder, const ps_trace_part_name *parts, size_t count,
                                 const char *name, ps_written *file, bool *is_written)
{
    char **paths = ps_xcalloc(count + 1, sizeof *paths);
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    ps_status st;

    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i].text);
        paths[i] = ps_xstrdup(path);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    st = ps_trace_merge(paths, count, path, is_written);
    if (ps_is_ok(&st) && *is_written) {
        st = ps_sha256_of_file(path, file->sha256, &file->size);
    }
    for (size_t i = 0; i < count; i++) {
        if (ps_is_ok(&st)) {
            unlink(paths[i]);
        }
        free(paths[i]);
    }
    free(paths);
    return st;
}

/* Makes the timeline of the parts that nodes left, and adds it to the job's files, if there is a
 * part. */
static ps_status write_trace(ps_archive *w)
{
    uint32_t workers = w->plan->spec->workers, servers = w->placement->server_count;
    ps_trace_part_name *parts = ps_xcalloc(workers + servers + 1u, sizeof *parts);
    char name[PS_NAME_MAX + 1];
    ps_written file = {0};
    bool is_written = false;
    ps_status st;

    /* Only the first rank of each worker process has a part; ps_trace_merge skips the others. */
    for (uint32_t i = 0; i < workers; i++) {
        ps_artifacts_worker_trace_name(parts[i].text, i);
    }
    for (uint32_t i = 0; i < servers; i++) {
        ps_artifacts_server_trace_name(parts[workers + i].text, i);
    }
    ps_artifact_name_of_job(name, sizeof name, PS_TRACE_PREFIX, w->plan->spec->title,
                            PS_TRACE_SUFFIX);
    st = ps_archive_merge_trace(w->folder, parts, workers + servers, name, &file, &is_written);
    if (ps_is_ok(&st) && is_written) {
        ps_job_add_artifact(w->job, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, file.size,
                            file.sha256, "");
    }
    free(parts);
    return st;
}

static ps_status write_manifest(ps_archive *w)
{
    ps_manifest_file *files = ps_xcalloc(w->job->n_artifacts + 1, sizeof *files);
    char path[PS_FOLDER_MAX + 20];
    ps_status st;

    for (size_t i = 0; i < w->job->n_artifacts; i++) {
        const Psgd__V1__Artifact *from = w->job->artifacts[i];

        files[i] = (ps_manifest_file){.name = from->name,
                                      .kind = ps_artifact_kind_name(from->kind),
                                      .node_id = from->node_id,
                                      .size = from->size};
        snprintf(files[i].sha256, sizeof files[i].sha256, "%s", from->sha256);
    }
    snprintf(path, sizeof path, "%s/manifest.json", w->folder);
    st = ps_manifest_write(path, files, w->job->n_artifacts);
    free(files);
    return st;
}

static ps_status list_logs(ps_archive *w)
{
    ps_log_file *logs = NULL;
    size_t count = 0;
    ps_status st =
        ps_log_files_list(w->folder, w->plan->spec->title, w->job->attempt, &logs, &count);

    for (size_t i = 0; ps_is_ok(&st) && i < count; i++) {
        st =
            list_file(w, logs[i].name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG, logs[i].node_id);
    }
    free(logs);
    return st;
}

/* Writes summary and manifest. Adds both, and the logs of nodes, to the job's files. */
static ps_status write_rest(ps_archive *w)
{
    const Psgd__V1__ArtifactKind summary = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY;
    char path[PS_FOLDER_MAX + 20];
    ps_status st = list_logs(w);

    snprintf(path, sizeof path, "%s/summary.json", w->folder);
    if (ps_is_ok(&st)) {
        st = ps_file_write(path, w->summary, strlen(w->summary));
    }
    if (ps_is_ok(&st)) {
        st = list_file(w, "summary.json", summary, "");
    }
    if (ps_is_ok(&st)) {
        st = write_manifest(w);
    }
    return ps_is_ok(&st) ? list_file(w, "manifest.json", summary, "") : st;
}

static void run(ps_task *task)
{
    ps_archive *w = PS_CONTAINER_OF(task, ps_archive, task);
    ps_status rest;

    /* The folder exists already, unless the disk was full when the attempt began. */
    w->status = ps_dir_make(w->folder);
    if (ps_is_ok(&w->status) && w->wants_model) {
        w->status = write_model(w);
    }
    if (ps_is_ok(&w->status) && w->wants_result) {
        w->status = write_result(w);
    }
    if (ps_is_ok(&w->status) || w->is_last_try) {
        rest = write_rounds(w);
        w->status = ps_is_ok(&w->status) ? rest : w->status;
    }
    if (w->plan->spec->trace != NULL && (ps_is_ok(&w->status) || w->is_last_try)) {
        rest = write_trace(w);
        w->status = ps_is_ok(&w->status) ? rest : w->status;
    }
    if (ps_is_ok(&w->status) || w->is_last_try || !ps_commit_may_pass(w->status.code)) {
        remove_parts(w);
        if (w->plan->compute != NULL && w->is_over) {
            remove_records(w);
        }
    }
    if (ps_is_ok(&w->status) || w->is_last_try) {
        rest = write_rest(w);
        w->status = ps_is_ok(&w->status) ? rest : w->status;
    }
}

static void done(ps_task *task)
{
    ps_archive *w = PS_CONTAINER_OF(task, ps_archive, task);

    w->written(w);
    psgd__v1__job__free_unpacked(w->job, NULL);
    free(w->summary);
    free(w);
}

ps_archive *ps_archive_create(const Psgd__V1__Job *job, const char *folder)
{
    ps_archive *w = ps_xcalloc(1, sizeof *w);

    w->task.run = run;
    w->task.done = done;
    w->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    w->job = (Psgd__V1__Job *)ps_message_copy(&job->base);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    return w;
}
