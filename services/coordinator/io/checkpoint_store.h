/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_store.h - checkpoints as folders, below DATA_DIR/jobs/ID/checkpoints/STEP/
 * (checkpoint_place.h).
 *
 *   model.safetensors           the servers' weights
 *   server-RANK-THREAD.state    slices and rows by virtual shard (common/store/store.h)
 *   rank-RANK.state             what a rank keeps (common/train/trainer.h)
 *   state.json                  where the job was, and what it computes
 *   MANIFEST.json               every other file with size and SHA-256; written last
 *
 * A folder is made under another name and gets its own when all of its files are on the disk.
 * LATEST beside it names the newest one that was read back. Waits for the disk: not on the loop's
 * thread.
 */
#ifndef PS_COORDINATOR_CHECKPOINT_STORE_H
#define PS_COORDINATOR_CHECKPOINT_STORE_H

#include "common/artifact/manifest.h"
#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "services/coordinator/domain/checkpoints.h"
#include "services/coordinator/io/artifacts.h"

#define PS_CHECKPOINT_MODEL "model.safetensors"

enum { PS_CHECKPOINT_FILES_MAX = 64 * 64 + 256 + 8 };

/* What state.json says. */
typedef struct ps_checkpoint_facts {
    char job_id[96];
    uint64_t step, clock;
    uint64_t plan_hash; /* of what the job computes (ps_plan_hash) */
    uint32_t ranks;
    bool is_rescue; /* the state of the servers after the loss of a worker: it stays until the next
                     * checkpoint */
    uint64_t seed;
    char version[32];               /* of psgd */
    char data[PS_SHA256_HEX_BYTES]; /* of the data set (identify.h); "": it is not known */
    /* With best_by: the metric, its value in the last evaluation up to the step, and the step of
     * that. "": no evaluation was over. */
    char metric[64];
    bool is_cost; /* less is better */
    double value;
    uint64_t evaluated_step;
    /* Step of the checkpoint from which rows count: files of servers lack those that have not
     * changed since. 0: they have all. The SHA-256 is that of its manifest. */
    uint64_t parent;
    char parent_sha256[PS_SHA256_HEX_BYTES];
} ps_checkpoint_facts;

/* A checkpoint that was read. */
typedef struct ps_checkpoint {
    ps_checkpoint_facts facts;
    char folder[PS_FOLDER_MAX];
    int64_t stored_s; /* seconds since 1970 */
    uint64_t bytes;   /* of all files */
    size_t count;
    ps_manifest_file *files;      /* (count); their names are the checkpoint's */
    struct ps_checkpoint *parent; /* NULL: files of servers have all rows */
} ps_checkpoint;

/* Writes the path of the folder in which the files of a checkpoint are gathered: a name that
 * ps_artifacts_sweep removes after a crash. */
PS_MUST_USE ps_status ps_checkpoint_gather(char out[PS_FOLDER_MAX], const char *job_folder,
                                           uint64_t step, uint32_t attempt);

/* What is to be stored. All borrowed. */
typedef struct ps_checkpoint_conf {
    const char *job_folder, *gathered; /* the folder of ps_checkpoint_gather, with the files */
    const ps_plan *plan;
    const ps_placement *placement;
    ps_checkpoint_facts facts;
    /* (count): states of servers and ranks; weights are left out. If ranks are not in step, one
     * that is not here gets that of the checkpoint before. */
    const ps_intake_file *files;
    size_t count;
    uint64_t base; /* clock of the checkpoint from which files of servers may count; 0: none */
} ps_checkpoint_conf;

/* What was stored of servers. */
typedef struct ps_checkpoint_rows {
    bool is_whole;  /* the files have all rows */
    uint64_t bytes; /* of the files */
} ps_checkpoint_rows;

/* Makes a checkpoint of gathered files: writes model, facts and manifest, gives the folder its
 * name, reads all back, then sets LATEST and removes the checkpoints that spec.checkpoint does not
 * keep. After a failure there is no new checkpoint, and all old ones stay. Fails with the errors of
 * files, also of fsync; DATA_LOSS: what was read back is not what was written, or a file counts
 * from another checkpoint than conf->base. conf->facts.parent is found in the files. */
PS_MUST_USE ps_status ps_checkpoint_store(const ps_checkpoint_conf *conf, ps_checkpoint_rows *rows);

/* Removes the checkpoints after `step`, from which the job goes on: they are of steps that it takes
 * anew at another rate. LATEST names `step` before. */
PS_MUST_USE ps_status ps_checkpoint_go_back(const char *job_folder, uint64_t step);

/* Removes gathered files. */
void ps_checkpoint_discard(const char *gathered);

/* Reads facts and manifest of the checkpoint at `step`, and of all that it needs: its parent, that
 * one's, and so on. Checks that the files are there with their sizes; with `is_thorough` also their
 * SHA-256. Fini it after success.
 *
 * NOT_FOUND  there is no such checkpoint
 * DATA_LOSS  names the file and what is wrong with it, or the parent that is missing or another */
PS_MUST_USE ps_status ps_checkpoint_read(const char *job_folder, uint64_t step, bool is_thorough,
                                         ps_checkpoint *out);
void ps_checkpoint_fini(ps_checkpoint *checkpoint);

/* Does the same with the checkpoint alone: it may need others. */
PS_MUST_USE ps_status ps_checkpoint_read_alone(const char *job_folder, uint64_t step,
                                               bool is_thorough, ps_checkpoint *out);

/* Does what ps_checkpoint_read does; `are_thorough` is about the parents. */
PS_MUST_USE ps_status ps_checkpoint_read_with_parents(const char *job_folder, uint64_t step,
                                                      bool is_thorough, bool are_thorough,
                                                      ps_checkpoint *out);

/* Finds in the gathered files whether they count from conf->base. If one does, sets facts->parent
 * and its SHA-256, and checks that the parent is there. */
PS_MUST_USE ps_status ps_checkpoint_find_parent(const ps_checkpoint_conf *conf,
                                                ps_checkpoint_facts *facts,
                                                ps_checkpoint_rows *rows);

/* Finds the newest checkpoint of a job: its clock, and the chain that it ends (checkpoints.h), for
 * a coordinator that has not stored it. Zeros: there is none that is whole. The chain is zeros if
 * nothing counts from it. */
void ps_checkpoint_find_chain(const char *job_folder, uint64_t *clock, ps_chain *chain);

/* Writes the SHA-256 of the checkpoint's manifest. */
PS_MUST_USE ps_status ps_checkpoint_manifest_sha256(const ps_checkpoint *checkpoint,
                                                    char out[PS_SHA256_HEX_BYTES]);

/* Calls fn for each file that servers load, with its path, until one call fails: first those of the
 * oldest checkpoint from which rows count, last those of this one. Returns the failure. */
typedef ps_status ps_checkpoint_server_fn(void *arg, const char *path,
                                          const ps_manifest_file *file);
PS_MUST_USE ps_status ps_checkpoint_each_server(const ps_checkpoint *checkpoint,
                                                ps_checkpoint_server_fn *fn, void *arg);

/* Returns the SHA-256 of a file; NULL: the checkpoint does not have it. */
const char *ps_checkpoint_sha256(const ps_checkpoint *checkpoint, const char *name);

/* Returns the index, of facts (count) by step, of the best one by the metric of the last; count:
 * none was evaluated. */
size_t ps_checkpoint_best(const ps_checkpoint_facts *facts, size_t count);

/* Lists the steps of which there is a folder, ascending. The caller frees *steps. */
size_t ps_checkpoint_list(const char *job_folder, uint64_t **steps);

/* Reads facts out of the text of a state.json, which is n bytes of anything. DATA_LOSS names the
 * member that is missing or wrong. */
PS_MUST_USE ps_status ps_checkpoint_parse(const char *text, size_t n, ps_checkpoint_facts *out);

#endif
