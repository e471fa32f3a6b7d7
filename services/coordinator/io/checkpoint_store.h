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
 * A folder is made under another name, and is renamed to STEP when all of its files are on the
 * disk. The file LATEST beside the folders names the newest checkpoint that was read back. Waits
 * for the disk: not on the loop's thread. */
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
    uint64_t plan_hash; /* hash of what the job computes (ps_plan_hash) */
    uint32_t ranks;
    /* the checkpoint was taken after a loss, or so that the job goes on with other processes, and
     * nobody asked for it; it is kept only until the next one, or until the job is DONE */
    bool is_passing;
    uint64_t seed;
    char version[32];               /* version of psgd */
    char data[PS_SHA256_HEX_BYTES]; /* SHA-256 of the data set (identify.h); "": not known */
    /* If the job has best_by: the metric, its value in the last evaluation up to `step`, and the
     * step of that evaluation. metric "": there was no evaluation yet. */
    char metric[64];
    bool is_cost; /* less is better for this metric */
    double value;
    uint64_t evaluated_step;
    /* Step of the parent: the servers' files lack rows that have not changed since that checkpoint.
     * 0: they have all rows. parent_sha256 is the SHA-256 of the parent's manifest. */
    uint64_t parent;
    char parent_sha256[PS_SHA256_HEX_BYTES];
} ps_checkpoint_facts;

/* A checkpoint that was read. */
typedef struct ps_checkpoint {
    ps_checkpoint_facts facts;
    char folder[PS_FOLDER_MAX];
    int64_t stored_s; /* when it was stored, in seconds since 1970 */
    uint64_t bytes;   /* bytes of all files */
    size_t count;
    ps_manifest_file *files;      /* (count); their names belong to the checkpoint */
    struct ps_checkpoint *parent; /* NULL: the servers' files have all rows */
} ps_checkpoint;

/* Writes the path of the folder in which the files of a checkpoint are gathered. After a crash
 * ps_artifacts_sweep removes a folder of this name. */
PS_MUST_USE ps_status ps_checkpoint_gather(char out[PS_FOLDER_MAX], const char *job_folder,
                                           uint64_t step, uint32_t attempt);

/* A checkpoint that is to be stored. All pointers are borrowed. */
typedef struct ps_checkpoint_conf {
    const char *job_folder, *gathered; /* the folder of ps_checkpoint_gather, with the files */
    const ps_plan *plan;
    const ps_placement *placement;
    ps_checkpoint_facts facts;
    /* (count): files of servers and ranks. The weights among them, whose names begin with a dot,
     * become the model. If ranks are not in step, a rank without a file gets its file of the
     * checkpoint before. */
    const ps_intake_file *files;
    size_t count;
    uint64_t base; /* clock of the checkpoint that may be the parent; 0: none may */
} ps_checkpoint_conf;

/* What the servers' files of a stored checkpoint are. */
typedef struct ps_checkpoint_rows {
    bool is_whole;  /* they have all rows */
    uint64_t bytes; /* bytes of these files */
} ps_checkpoint_rows;

/* Makes a checkpoint of gathered files: writes model, facts and manifest, gives the folder its
 * name, reads all files back, sets LATEST, and then removes the checkpoints that spec.checkpoint
 * does not keep. conf->facts.parent need not be set, because the gathered files say it. After a
 * failure there is no new checkpoint, and all old ones stay. Fails as writing files does, including
 * fsync. DATA_LOSS: what was read back is not what was written, or a file has another parent than
 * conf->base. */
PS_MUST_USE ps_status ps_checkpoint_store(const ps_checkpoint_conf *conf, ps_checkpoint_rows *rows);

/* Removes the checkpoints of steps after `step`. The job goes on from `step` after a rollback, and
 * takes the later steps anew at another learning rate. First sets LATEST to `step`; removes LATEST
 * and logs why if it cannot be written. */
void ps_checkpoint_go_back(const char *job_folder, uint64_t step);

/* Removes the passing checkpoints of a job that is DONE, but none that a kept one needs. First sets
 * LATEST to the newest one that stays; if none stays, removes LATEST. */
void ps_checkpoint_drop_passing(const char *job_folder);

/* Removes gathered files. */
void ps_checkpoint_discard(const char *gathered);

/* Reads facts and manifest of the checkpoint at `step`, of its parent, of the parent's parent, and
 * so on. Checks that the files exist with their sizes; is_thorough: also their SHA-256. After
 * success the caller calls ps_checkpoint_fini.
 *
 * NOT_FOUND  there is no such checkpoint
 * DATA_LOSS  names the file and what is wrong with it, or the parent that is missing or is
 *            another one
 */
PS_MUST_USE ps_status ps_checkpoint_read(const char *job_folder, uint64_t step, bool is_thorough,
                                         ps_checkpoint *out);
void ps_checkpoint_fini(ps_checkpoint *checkpoint);

/* Reads and checks a checkpoint as ps_checkpoint_read does, but not its parents. */
PS_MUST_USE ps_status ps_checkpoint_read_alone(const char *job_folder, uint64_t step,
                                               bool is_thorough, ps_checkpoint *out);

/* Reads and checks a checkpoint as ps_checkpoint_read does. are_thorough: also check the SHA-256 of
 * the parents' files. */
PS_MUST_USE ps_status ps_checkpoint_read_with_parents(const char *job_folder, uint64_t step,
                                                      bool is_thorough, bool are_thorough,
                                                      ps_checkpoint *out);

/* Finds out whether the gathered files lack rows that the checkpoint of clock conf->base has. If
 * so, sets facts->parent and parent_sha256, and checks that this parent exists. */
PS_MUST_USE ps_status ps_checkpoint_find_parent(const ps_checkpoint_conf *conf,
                                                ps_checkpoint_facts *facts,
                                                ps_checkpoint_rows *rows);

/* Reads the newest checkpoint of a job, for a coordinator that has not stored it itself. Sets its
 * clock, and the chain (checkpoints.h) as it was after that checkpoint was stored. Both are zeros
 * if the job has no checkpoint, or the newest one is damaged. The chain is zeros if no later
 * checkpoint may have that one as its parent, because it is a passing one (is_passing). */
void ps_checkpoint_find_chain(const char *job_folder, uint64_t *clock, ps_chain *chain);

/* Writes the SHA-256 of the checkpoint's manifest. */
PS_MUST_USE ps_status ps_checkpoint_manifest_sha256(const ps_checkpoint *checkpoint,
                                                    char out[PS_SHA256_HEX_BYTES]);

/* Calls fn for each file that servers load, with its path, until a call fails: first for the files
 * of the oldest checkpoint, then those of its successors, last those of this checkpoint. Returns
 * the failure. */
typedef ps_status ps_checkpoint_server_fn(void *arg, const char *path,
                                          const ps_manifest_file *file);
PS_MUST_USE ps_status ps_checkpoint_each_server(const ps_checkpoint *checkpoint,
                                                ps_checkpoint_server_fn *fn, void *arg);

/* Returns the SHA-256 of a file; NULL: the checkpoint does not have it. */
const char *ps_checkpoint_sha256(const ps_checkpoint *checkpoint, const char *name);

/* Returns the index of the best of facts (count), which are sorted by step, by the metric of the
 * last one. `count`: none was evaluated. */
size_t ps_checkpoint_best(const ps_checkpoint_facts *facts, size_t count);

/* Lists the steps for which there is a folder, ascending. The caller frees *steps. Returns their
 * number. */
size_t ps_checkpoint_list(const char *job_folder, uint64_t **steps);

/* Reads facts from the text of a state.json: n bytes, which may be anything. DATA_LOSS names the
 * member that is missing or wrong. */
PS_MUST_USE ps_status ps_checkpoint_parse(const char *text, size_t n, ps_checkpoint_facts *out);

#endif
