/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_package.h - the content of PreCommit's packages, made once for all nodes of an attempt.
 *
 * Two tasks make it. The first describes the data set and finds the files to start from, before a
 * node is asked. The second makes the initial weights, which take memory, when all nodes are
 * reserved.
 */
#ifndef PS_COORDINATOR_ATTEMPT_PACKAGE_H
#define PS_COORDINATOR_ATTEMPT_PACKAGE_H

#include "common/base/buf.h"
#include "common/base/sha256.h"
#include "common/data/identify.h"
#include "common/data/learned.h"
#include "common/job/plan.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/io/init_from.h"

typedef struct ps_package ps_package;

typedef struct ps_package_conf {
    /* Borrowed until the package is destroyed. If the job goes on from a checkpoint of its own,
     * ps_package_find sets spec->init_from to it, and drops spec->init_tables. */
    ps_plan *plan;
    const char *job_id;
    bool goes_on;               /* the job may have checkpoints of its own */
    const char *checkpoint_dir; /* as ps_checkpoint_place_give takes it */
    /* latest step that a checkpoint of its own may have from which the job goes on
     * (ps_recovery_rollback_limit) */
    uint64_t rollback_limit;
    ps_init_where where; /* the registry and the folders of files */
    /* folder of the job's files, created if it does not exist; borrowed until destroy */
    const char *folder;
    ps_data_cache *cache; /* borrowed until ps_package_destroy */
    /* Called once after ps_package_find and once after ps_package_make, on the loop's thread. */
    void (*found)(void *arg, ps_package *package);
    void (*made)(void *arg, ps_package *package);
    void *arg;
} ps_package_conf;

struct ps_package {
    ps_task task;
    ps_package_conf conf;

    /* The result. The members are valid if status is OK. */
    ps_status status;
    const char *reason;    /* reason of a failure, for machines, such as "DATA_MISSING" */
    ps_init_tables tables; /* files from which the sparse tables start */
    /* files of servers and of ranks in the checkpoint from which the job goes on */
    ps_init_tables servers, ranks;
    /* clock of the checkpoint from which the job goes on; 0: the job begins anew */
    uint64_t first_clock;
    /* the checkpoint was taken by this very job, so an older one may replace it */
    bool is_own;
    char data_folder[1024];
    ps_data_files files;
    /* What was learned from all data files, for workers that have only some of them; empty if every
     * worker has all. */
    ps_learned_parts learned;
    ps_buf *weights; /* all weights, float32; NULL until they are made */

    /* Private. */
    char init_path[PS_INIT_PATH_MAX]; /* file of the model to start from; "": weights are drawn */
    char init_sha256[PS_SHA256_HEX_BYTES];
};

ps_package *ps_package_create(const ps_package_conf *conf);
void ps_package_destroy(ps_package *package); /* no task of it may be running; NULL is allowed */

/* Submits the task that finds, checks and describes the files. */
void ps_package_find(ps_package *package, ps_tasks *tasks);

/* Submits the task that makes the weights, after ps_package_find has succeeded. */
void ps_package_make(ps_package *package, ps_tasks *tasks);

/* Writes the weights with which the attempt begins to `block` (param_count): those of the model or
 * checkpoint in init_from, or drawn ones. Writes nothing for a job that computes. Any thread but
 * the loop's. */
PS_MUST_USE ps_status ps_package_fill(const ps_package *package, float *block);

/* Frees the weights, when all nodes have them. */
void ps_package_drop_weights(ps_package *package);

/* Lists the data files that a process needs which carries the ranks `first` to first + count - 1.
 * The caller frees *out. */
void ps_package_files_of(const ps_package *package, uint32_t first, uint32_t count,
                         ps_data_files *out);

/* Returns how many bytes of data files are sent to all workers, if each is alone in its process. */
uint64_t ps_package_data_bytes(const ps_package *package, uint32_t workers);

#endif
