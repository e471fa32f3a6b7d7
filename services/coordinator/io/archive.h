/* SPDX-License-Identifier: Apache-2.0 */
/* archive.h - a task that writes the last files of an attempt: the servers' weights as one model,
 * the result of a job that computes, the record of rounds, the timeline, the summary, the manifest.
 * It also lists the logs, those of lost attempts too (log_files.h).
 *
 * The task's thread reads only copies and immutable data: the job as a message, the plan, the
 * folder. The result is the job with the files that were added.
 */
#ifndef PS_COORDINATOR_ARCHIVE_H
#define PS_COORDINATOR_ARCHIVE_H

#include "common/artifact/safetensors.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/domain/commit.h"
#include "services/coordinator/io/artifacts.h"

typedef struct ps_archive ps_archive;
struct ps_archive {
    ps_task task;

    /* Set by the caller before it submits the task. */
    const ps_plan *plan;           /* borrowed until `written` is called */
    const ps_placement *placement; /* borrowed until `written` is called */
    char *summary;                 /* the text of summary.json; the archive takes it */
    bool wants_model;              /* write a model: the weights of all servers are in the folder */
    bool wants_result;             /* write the result of a job that computes */
    bool is_over;                  /* no other attempt of the job follows */
    bool is_last_try;              /* after a failure go on to rounds, timeline and the rest */
    /* called once, on the loop's thread; then the archive is freed */
    void (*written)(ps_archive *w);
    void *arg;

    /* The result, for `written`. */
    Psgd__V1__Job *job; /* a copy of the job, to which the files that were written are added */
    ps_status status;

    /* Private. */
    char folder[PS_FOLDER_MAX];
};

/* Creates an archive for a copy of `job`. `folder` has the job's files. */
ps_archive *ps_archive_create(const Psgd__V1__Job *job, const char *folder);

/* Writes the model `folder`/`name` from the weights of all servers, whose parts are in the folder
 * (ps_artifacts_part_name). Any thread; waits for the disk. */
PS_MUST_USE ps_status ps_archive_write_weights(const ps_plan *plan, const ps_placement *placement,
                                               const char *job_id, const char *folder,
                                               const char *name, ps_written *written);

/* The name under which a node's part of a timeline is stored. */
typedef struct ps_trace_part_name {
    char text[32];
} ps_trace_part_name;

/* Makes the timeline `folder`/`name` from these parts (count) in the folder, and removes the parts.
 * If none of them exists, *is_written becomes false; else *file is set. Any thread; waits for the
 * disk. */
PS_MUST_USE ps_status ps_archive_merge_trace(const char *folder, const ps_trace_part_name *parts,
                                             size_t count, const char *name, ps_written *file,
                                             bool *is_written);

#endif
