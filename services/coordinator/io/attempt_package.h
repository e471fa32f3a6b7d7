/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_package.h - what PreCommit brings to the nodes of an attempt, made once for
 * all of them as a task: initial weights, and what the data set is.
 */
#ifndef PS_COORDINATOR_ATTEMPT_PACKAGE_H
#define PS_COORDINATOR_ATTEMPT_PACKAGE_H

#include "common/base/buf.h"
#include "common/base/sha256.h"
#include "common/data/identify.h"
#include "common/job/plan.h"
#include "common/rpc/tasks.h"

typedef struct ps_package ps_package;

typedef struct ps_package_conf {
    const ps_plan *plan;                             /* borrowed until ready */
    const char *data_path;                           /* kept; or NULL */
    const char *init_path;                           /* of the model to start from; "": drawn */
    const char *init_sha256;                         /* that it must have; "": any */
    const char *const *table_paths;                  /* (table_count), borrowed until ready */
    const char (*table_sha256)[PS_SHA256_HEX_BYTES]; /* (table_count): as init_sha256 */
    size_t table_count;                              /* files that sparse tables start from */
    ps_data_cache *cache;                            /* the strand's */
    void (*ready)(void *arg, ps_package *package);   /* loop thread */
    void *arg;
} ps_package_conf;

struct ps_package {
    ps_task task;
    ps_package_conf conf;
    char *init_path; /* conf's, a copy */
    char init_sha256[PS_SHA256_HEX_BYTES];

    /* The result; status says whether the rest is there. */
    ps_status status;
    const char *reason; /* why not, for machines: "DATA_MISSING" */
    ps_buf *weights;    /* the whole block, float32 */
    char folder[1024];  /* of the data set's files */
    ps_data_file files[PS_DATA_FILES_MAX];
    size_t file_count;
    char sha256[65];
};

/* conf->ready is called once, later. */
ps_package *ps_package_create(ps_tasks *tasks, ps_strand *strand, const ps_package_conf *conf);
void ps_package_destroy(ps_package *package); /* after ready; NULL is allowed */

/* What the files of a data set weigh, as far as their sizes tell; data_path may be NULL. */
uint64_t ps_package_data_bytes(const ps_plan *plan, const char *data_path);

#endif
