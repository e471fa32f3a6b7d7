/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_package.h - what PreCommit brings to the nodes of an attempt, made once for all of them
 * as two tasks: what the data set is and which files to start from, before a node is asked; the
 * initial weights, which take memory, when all nodes are reserved.
 */
#ifndef PS_COORDINATOR_ATTEMPT_PACKAGE_H
#define PS_COORDINATOR_ATTEMPT_PACKAGE_H

#include "common/base/buf.h"
#include "common/base/sha256.h"
#include "common/data/identify.h"
#include "common/job/plan.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/io/init_from.h"

typedef struct ps_package ps_package;

typedef struct ps_package_conf {
    const ps_plan *plan;  /* borrowed as long as the package */
    ps_init_where where;  /* the registry and the folders of files */
    const char *folder;   /* of the job's files, made if it is not there; borrowed likewise */
    ps_data_cache *cache; /* likewise */
    /* Called once after ps_package_find and once after ps_package_make, on the loop's thread. */
    void (*found)(void *arg, ps_package *package);
    void (*made)(void *arg, ps_package *package);
    void *arg;
} ps_package_conf;

struct ps_package {
    ps_task task;
    ps_package_conf conf;

    /* The result; status says whether the rest is there. */
    ps_status status;
    const char *reason;    /* why not, for machines: "DATA_MISSING" */
    ps_init_tables tables; /* files that sparse tables start from */
    char data_folder[1024];
    ps_data_files files;
    ps_buf *weights; /* the whole block, float32; NULL until it is made */

    /* Its own. */
    char init_path[PS_INIT_PATH_MAX]; /* of the model to start from; "": drawn */
    char init_sha256[PS_SHA256_HEX_BYTES];
};

ps_package *ps_package_create(const ps_package_conf *conf);
void ps_package_destroy(ps_package *package); /* while no task of it runs; NULL is allowed */

/* Finds, checks and describes files. */
void ps_package_find(ps_package *package, ps_tasks *tasks);

/* Makes the weights, after ps_package_find has succeeded. */
void ps_package_make(ps_package *package, ps_tasks *tasks);

/* Frees the weights: all nodes have them. */
void ps_package_drop_weights(ps_package *package);

/* Returns the bytes of data files, as found. */
uint64_t ps_package_data_bytes(const ps_package *package);

#endif
