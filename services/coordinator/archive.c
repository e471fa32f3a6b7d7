/* SPDX-License-Identifier: Apache-2.0 */
/* archive.c - the last files of an attempt, made as a task: the
 * servers' weights as one model, the summary, the manifest.
 *
 * All that the thread reads is copied or immutable: the job as a message, the
 * plan, the folder. It answers with a list of files.
 */
#include "common/artifact/manifest.h"
#include "common/artifact/report.h"
#include "common/artifact/weights.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/describe.h"
#include "common/rpc/pbjson.h"
#include "services/coordinator/driver_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 4096 };

typedef struct archive {
    ps_task task;
    ps_attempt *a;
    char folder[PS_FOLDER_MAX];
    Psgd__V1__Job *job;            /* a copy; the thread adds its files to it */
    ps_plan *plan;                 /* borrowed: the attempt waits for the task */
    const ps_placement *placement; /* likewise */
    char *summary;                 /* the text of summary.json */
    bool wants_model;              /* there are servers, and all their weights are here */
    bool is_last_try;              /* what there is no room for is left out */
    char (*logs)[PS_NAME_MAX + 1]; /* (log_count): names with their nodes */
    char (*log_nodes)[PS_COMMIT_NODE_ID_MAX];
    size_t log_count;
    ps_status status;
} archive;

static ps_status scatter(const archive *w, float *block)
{
    const ps_layout *layout = &w->plan->layout;
    const ps_placement *placement = w->placement;

    for (uint32_t rank = 0; rank < placement->server_count; rank++) {
        char name[32], *bytes = NULL, path[PS_FOLDER_MAX + 40];
        size_t want = ps_placement_value_count(placement, rank) * sizeof(float), n = 0, at = 0;
        ps_status st;

        ps_artifacts_part_name(name, rank);
        snprintf(path, sizeof path, "%s/%s", w->folder, name);
        st = ps_file_read(path, want + 1, &bytes, &n);
        if (ps_is_ok(&st) && n != want) {
            st = ps_fail(PS_DATA_LOSS, "weights of server %u have %zu bytes instead of %zu", rank,
                         n, want);
        }
        for (uint32_t k = 0; ps_is_ok(&st) && k < placement->owned_count[rank]; k++) {
            const ps_slice *s = &layout->slices[placement->owned[rank][k]];

            memcpy(block + s->at, bytes + at, s->n * sizeof(float));
            at += s->n * sizeof(float);
        }
        free(bytes);
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    return ps_ok();
}

static ps_status write_model(archive *w)
{
    const ps_layout *layout = &w->plan->layout;
    float *block = malloc((layout->param_count + 1) * sizeof *block);
    char name[PS_NAME_MAX + 1], path[PS_FOLDER_MAX + PS_NAME_MAX + 2], hex[PS_SHA256_HEX_BYTES];
    char *spec = ps_plan_describe(w->plan);
    const ps_meta meta[] = {{"job", w->job->id},
                            {"title", w->plan->spec->title},
                            {"producer", "psgd-coordinator " PS_VERSION},
                            {PS_DESCRIPTION_KEY, spec}};
    uint64_t size = 0;
    ps_status st;

    ps_artifact_name(name, sizeof name, "MODEL", w->plan->spec->title, "ps", ".safetensors");
    st = block
             ? ps_wrap(ps_room_for(w->folder, layout->param_count * sizeof *block), "%s", name)
             : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu parameters", layout->param_count);
    if (ps_is_ok(&st)) {
        st = scatter(w, block);
    }
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    if (ps_is_ok(&st)) {
        st = ps_weights_write(path, layout->stored, layout->stored_count, block, meta,
                              sizeof meta / sizeof meta[0]);
    }
    if (ps_is_ok(&st)) {
        st = ps_sha256_of_file(path, hex, &size);
    }
    if (ps_is_ok(&st)) {
        ps_job_add_artifact(w->job, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL, size, hex,
                            "");
    }
    free(spec);
    free(block);
    return st;
}

/* Without all of them, or with the model made, they are of no use. */
static void remove_parts(const archive *w)
{
    char path[PS_FOLDER_MAX + 40], part[32];

    for (uint32_t rank = 0; rank < w->placement->server_count; rank++) {
        ps_status st;

        ps_artifacts_part_name(part, rank);
        snprintf(path, sizeof path, "%s/%s", w->folder, part);
        st = ps_dir_remove(path);
        (void)st; /* it only takes room */
    }
}

static ps_status list_file(archive *w, const char *name, Psgd__V1__ArtifactKind kind,
                           const char *node_id)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2], hex[PS_SHA256_HEX_BYTES];
    uint64_t size = 0;
    ps_status st;

    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    st = ps_sha256_of_file(path, hex, &size);
    if (st.code == PS_NOT_FOUND) {
        return ps_ok(); /* a node that never logged */
    }
    if (ps_is_ok(&st)) {
        ps_job_add_artifact(w->job, name, kind, size, hex, node_id);
    }
    return st;
}

static ps_status write_manifest(archive *w)
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

/* All but the model. */
static ps_status write_rest(archive *w)
{
    const Psgd__V1__ArtifactKind log = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG;
    const Psgd__V1__ArtifactKind summary = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY;
    char path[PS_FOLDER_MAX + 20];
    ps_status st = ps_ok();

    for (size_t i = 0; ps_is_ok(&st) && i < w->log_count; i++) {
        st = list_file(w, w->logs[i], log, w->log_nodes[i]);
    }
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
    archive *w = PS_CONTAINER_OF(task, archive, task);
    ps_status rest;

    w->status = ps_dir_make(w->folder); /* it was made with the attempt, unless the disk was full */
    if (ps_is_ok(&w->status) && w->wants_model) {
        w->status = write_model(w);
    }
    if (ps_is_ok(&w->status) || w->is_last_try || !ps_commit_may_pass(w->status.code)) {
        remove_parts(w);
    }
    if (ps_is_ok(&w->status) || w->is_last_try) {
        rest = write_rest(w);
        w->status = ps_is_ok(&w->status) ? rest : w->status;
    }
}

/* What is written is the job's; the commit saves the outcome next, before nodes are told. */
static void take(archive *w)
{
    ps_attempt *a = w->a;
    Psgd__V1__Job *job = a->job->record.job, *from = w->job;

    for (size_t i = 0; i < from->n_artifacts; i++) {
        ps_job_add_artifact(job, from->artifacts[i]->name, from->artifacts[i]->kind,
                            from->artifacts[i]->size, from->artifacts[i]->sha256,
                            from->artifacts[i]->node_id);
    }
    ps_commit_stored(&a->commit, &w->status, ps_loop_now_us(a->c->loop));
}

static void done(ps_task *task)
{
    archive *w = PS_CONTAINER_OF(task, archive, task);
    ps_attempt *a = w->a;

    if (a->job) {
        take(w);
        ps_attempt_pump(a);
    }
    psgd__v1__job__free_unpacked(w->job, NULL);
    free(w->summary);
    free(w->logs);
    free(w->log_nodes);
    free(w);
    ps_attempt_settle(a);
}

/* Where each rank was that the worker carried. */
static json_t *ranks_json(const ps_attempt *a, const ps_member *m)
{
    json_t *ranks = json_array();

    for (uint32_t k = 0; k < m->rank_count; k++) {
        const Psgd__V1__WorkerProgress *progress = a->told[m->rank + k].progress;

        if (progress) {
            json_array_append_new(ranks, ps_pb_to_json(&progress->base, PS_PB_DEFAULTS));
        }
    }
    return ranks;
}

static json_t *nodes_json(const ps_attempt *a)
{
    json_t *nodes = json_array();

    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *m = &a->commit.members[i];
        json_t *node =
            json_pack("{s:s, s:s, s:s, s:i, s:b}", "node_id", m->id, "address", m->address, "role",
                      ps_role_name(m->role), "rank", (int)m->rank, "lost", (int)m->is_lost);

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
            json_object_set_new(node, "ranks", ranks_json(a, m));
        }
        if (a->peers[i].counters) {
            json_object_set_new(node, "counters",
                                ps_pb_to_json(&a->peers[i].counters->base, PS_PB_DEFAULTS));
        }
        json_array_append_new(nodes, node);
    }
    return nodes;
}

/* The job as GetJob shows it, as it will be, and what each node did. */
static char *make_summary(const ps_attempt *a)
{
    Psgd__V1__Job job = *a->job->record.job;
    Google__Protobuf__Timestamp end = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    int64_t wall_us = ps_clock_wall_us();
    json_t *root;
    char *text;

    end.seconds = wall_us / 1000000;
    end.nanos = (int32_t)(wall_us % 1000000) * 1000;
    job.state = a->commit.outcome;
    job.reason = (char *)a->commit.reason;
    job.message = (char *)a->commit.message;
    job.end_time = &end;
    job.n_artifacts = 0; /* the manifest has them */
    job.n_placements = 0;
    root = ps_pb_to_json(&job.base, PS_PB_TERSE);
    if (job.start_time) {
        json_object_set_new(root, "seconds",
                            json_real((double)(end.seconds - job.start_time->seconds) +
                                      (end.nanos - job.start_time->nanos) / 1e9));
    }
    json_object_set_new(root, "nodes", nodes_json(a));
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    return text ? text : ps_xstrdup("{}");
}

void ps_archive_start(ps_attempt *a)
{
    archive *w = ps_xcalloc(1, sizeof *w);

    w->task.run = run;
    w->task.done = done;
    w->a = a;
    w->is_last_try = a->commit.is_last_try;
    w->plan = a->plan;
    w->placement = &a->placement;
    w->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    snprintf(w->folder, sizeof w->folder, "%s", a->folder);
    w->job = (Psgd__V1__Job *)ps_message_copy(&a->job->record.job->base);
    w->summary = make_summary(a);
    w->logs = ps_xcalloc(a->commit.count, sizeof *w->logs);
    w->log_nodes = ps_xcalloc(a->commit.count, sizeof *w->log_nodes);
    w->wants_model = a->plan->mesh == NULL; /* else worker 0 brings the only one */
    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *m = &a->commit.members[i];

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER && m->files != PS_FILES_HERE) {
            w->wants_model = false;
        }
        if (m->id[0] == '\0') {
            continue;
        }
        ps_artifacts_log_name(w->logs[w->log_count], a->plan->spec->title, m->id, a->number);
        snprintf(w->log_nodes[w->log_count++], PS_COMMIT_NODE_ID_MAX, "%s", m->id);
    }
    a->pending++;
    ps_tasks_submit(a->c->tasks, &a->c->in_order, &w->task);
}
