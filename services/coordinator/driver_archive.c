/* SPDX-License-Identifier: Apache-2.0 */
/* driver_archive.c - gives io/archive.h what it needs to write the last files of an attempt. */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "services/coordinator/io/archive.h"

#include <stdlib.h>

/* Returns a list of the last reports of the ranks that the worker carries, without ranks that have
 * not reported. */
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
        json_t *node = json_pack("{s:s, s:s, s:s, s:i, s:b, s:s}", "node_id", m->id, "address",
                                 m->address, "role", ps_role_name(m->role), "rank", (int)m->rank,
                                 "lost", (int)m->is_lost, "version", m->version);

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
            json_object_set_new(node, "ranks", ranks_json(a, m));
        }
        if (a->nodes[i].counters) {
            json_object_set_new(node, "counters",
                                ps_pb_to_json(&a->nodes[i].counters->base, PS_PB_DEFAULTS));
        }
        json_array_append_new(nodes, node);
    }
    return nodes;
}

/* Returns the text of summary.json: the job as GetJob will show it, but without its files and
 * placements, and what each node did. The caller frees it. */
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
    job.n_artifacts = 0; /* the manifest lists them */
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

/* Adds the files that were written to the job. */
static void take(ps_attempt *a, const ps_archive *w)
{
    Psgd__V1__Job *job = a->job->record.job;

    for (size_t i = 0; i < w->job->n_artifacts; i++) {
        const Psgd__V1__Artifact *file = w->job->artifacts[i];

        ps_job_add_artifact(job, file->name, file->kind, file->size, file->sha256, file->node_id);
    }
}

static void end(ps_attempt *a, const ps_status *result)
{
    ps_commit_stored(&a->commit, result, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

void ps_archive_end(ps_attempt *a)
{
    ps_status written = ps_ok();

    end(a, &written);
}

static void written(ps_archive *w)
{
    ps_attempt *a = w->arg;

    if (a->job) {
        take(a, w);
        if (ps_is_ok(&w->status) && a->commit.outcome == PSGD__V1__JOB_STATE__JOB_STATE_DONE) {
            ps_checkpoints_drop_passing(a);
        } else {
            end(a, &w->status);
        }
    }
    ps_attempt_settle(a);
}

void ps_archive_start(ps_attempt *a)
{
    ps_archive *w = ps_archive_create(a->job->record.job, a->folder);

    w->written = written;
    w->arg = a;
    w->is_last_try = a->commit.is_last_try;
    w->plan = a->plan;
    w->placement = &a->placement;
    w->summary = make_summary(a);
    /* The model is written here, from the servers' weights. In a mesh worker 0 leaves it; a job
     * that computes has none. */
    w->wants_model = a->plan->mesh == NULL && a->plan->compute == NULL;
    w->wants_result =
        a->plan->compute != NULL && a->commit.outcome == PSGD__V1__JOB_STATE__JOB_STATE_DONE;
    w->is_over = a->commit.outcome != PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *m = &a->commit.members[i];

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER && m->files != PS_FILES_HERE) {
            w->wants_model = false;
        }
    }
    a->pending++;
    ps_tasks_submit(a->c->tasks, &a->archiving, &w->task);
}
