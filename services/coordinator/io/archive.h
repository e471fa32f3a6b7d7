/* SPDX-License-Identifier: Apache-2.0 */
/* archive.h - the last files of an attempt, made as a task: the servers' weights as one model, the
 * summary, the manifest.
 *
 * All that the thread reads is copied or immutable: the job as a message, the plan, the folder. It
 * answers with a list of files.
 */
#ifndef PS_COORDINATOR_ARCHIVE_H
#define PS_COORDINATOR_ARCHIVE_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/domain/commit.h"
#include "services/coordinator/io/artifacts.h"

typedef struct ps_archive ps_archive;
struct ps_archive {
    ps_task task;

    /* The caller's, before it submits the task. */
    const ps_plan *plan; /* borrowed until `written` */
    const ps_placement *placement;
    char *summary;                  /* the text of summary.json; the archive's from then on */
    bool wants_model;               /* there are servers, and all their weights are here */
    bool is_last_try;               /* what there is no room for is left out */
    void (*written)(ps_archive *w); /* called once, on the loop's thread; then it is freed */
    void *arg;

    /* The result. */
    Psgd__V1__Job *job; /* a copy, with the files that were added */
    ps_status status;

    /* Its own. */
    char folder[PS_FOLDER_MAX];
    char (*logs)[PS_NAME_MAX + 1]; /* (log_count): names with their nodes */
    char (*log_nodes)[PS_COMMIT_NODE_ID_MAX];
    size_t log_count;
};

/* Makes one for a copy of the job, whose files lie in `folder`, with room for `log_cap` logs. */
ps_archive *ps_archive_create(const Psgd__V1__Job *job, const char *folder, size_t log_cap);

/* Lists the log of a node, if there is one. Set `plan` before. */
void ps_archive_add_log(ps_archive *w, const char *node_id, uint32_t attempt);

#endif
