/* SPDX-License-Identifier: Apache-2.0 */
/* artifacts.h - the files of jobs, below DATA_DIR/jobs/ID/.
 *
 * Logs grow by heartbeats. Collected files appear whole or not at all. Summary and manifest are
 * written last. Every file under a safe name in the folder is a file of the job; the job's record
 * lists the complete ones.
 */
#ifndef PS_COORDINATOR_ARTIFACTS_H
#define PS_COORDINATOR_ARTIFACTS_H

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "services/coordinator/io/left_files.h"

#include "psgd/v1/node.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_FOLDER_MAX = 1024,
    PS_CHUNK_MAX = 1 << 20, /* most bytes of a file in one message */
    /* when a node's log has so many bytes, further ones are dropped */
    PS_LOG_BYTES_MAX = 64 << 20,
    PS_INTAKE_FILES_MAX = 1056 /* most files of one node, as many as it may leave (node.h) */
};

/* Writes the path of a job's folder to `out`. job_id must come from the registry, because it is not
 * checked. Returns OUT_OF_RANGE if the path is too long. */
PS_MUST_USE ps_status ps_artifacts_folder(char out[PS_FOLDER_MAX], const char *data_dir,
                                          const char *job_id);

/* Returns whether the job has a folder. With job_id "": whether DATA_DIR/jobs exists. */
bool ps_artifacts_exist(const char *data_dir, const char *job_id);

/* Calls fn for every folder of a job, in no order. */
void ps_artifacts_each(const char *data_dir, void (*fn)(void *arg, const char *job_id), void *arg);

/* Tells whether the registry has a job. UNSURE: the registry cannot tell. */
typedef enum ps_known { PS_JOB_KNOWN, PS_JOB_UNKNOWN, PS_JOB_UNSURE } ps_known;

/* Cleans up below DATA_DIR/jobs after a crash. Removes half-written files of known jobs, and
 * folders of deleted jobs. Undoes a deletion that was not stored. Calls `unknown` for the folder of
 * each job that the registry does not know, and leaves the folder as it is, because the registry
 * may be wrong. */
void ps_artifacts_sweep(const char *data_dir, ps_known (*known)(void *arg, const char *job_id),
                        void (*unknown)(void *arg, const char *job_id), void *arg);

/* Renames the folder of a deleted job to *out, a name that ps_artifacts_sweep removes. The caller
 * removes it by ps_checkpoint_place_remove(out, job_id). Returns NOT_FOUND if there is no
 * folder. */
PS_MUST_USE ps_status ps_artifacts_set_aside(const char *data_dir, const char *job_id,
                                             char out[PS_FOLDER_MAX]);

/* Undoes ps_artifacts_set_aside. */
PS_MUST_USE ps_status ps_artifacts_take_back(const char *data_dir, const char *job_id);

/* Writes the name of a node's log: "LOG-title-N(node).jsonl"; from the second attempt on with the
 * attempt's number, as in "LOG-title-N(node).2.jsonl". */
void ps_artifacts_log_name(char out[PS_NAME_MAX + 1], const char *title, const char *node_id,
                           uint32_t attempt);

/* Returns the bytes of the file; 0 if it does not exist. */
uint64_t ps_artifacts_size(const char *folder, const char *name);

/* Appends n bytes, which begin at byte `offset` of the node's log, to the file. Skips those that
 * the file has already; writes nothing if the file has fewer than `offset` bytes. *stored becomes
 * the length of the file. If that is PS_LOG_BYTES_MAX or more already, drops the bytes, but counts
 * them in *stored. The folder must exist. */
PS_MUST_USE ps_status ps_artifacts_append(const char *folder, const char *name, uint64_t offset,
                                          const void *bytes, size_t n, uint64_t *stored);

/* Reads up to n bytes at `offset`. Returns NOT_FOUND if the file does not exist. */
PS_MUST_USE ps_status ps_artifacts_read(const char *folder, const char *name, uint64_t offset,
                                        void *bytes, size_t n, size_t *got);

/* --- collected files ----------------------------------------------------------- */

typedef struct ps_intake_file {
    char name[PS_NAME_MAX + 1]; /* name of the file in the job's folder */
    Psgd__V1__ArtifactKind kind;
    uint64_t size;
    char sha256[PS_SHA256_HEX_BYTES];
} ps_intake_file;

/* Receives the chunks of Collect from one node, one file at a time. It needs no more disk than the
 * node sends. */
typedef struct ps_intake {
    ps_leaver who;
    char folder[PS_FOLDER_MAX];
    char log_name[PS_NAME_MAX + 1]; /* name under which the node's log is stored */
    char part_name[32];             /* name under which weights.f32 is stored */
    ps_file_writer writer;
    bool is_open;
    char at[PS_NAME_MAX + 1]; /* the node's name of the file that is being received; "": none */
    uint64_t received;
    ps_sha256 sha;
    ps_intake_file now, files[PS_INTAKE_FILES_MAX];
    size_t file_count;
    bool has_diverged; /* weights that were received are not finite */
} ps_intake;

void ps_intake_init(ps_intake *in, const char *folder, const char *log_name, const ps_leaver *who);
/* Removes an unfinished file and frees what the intake owns. */
void ps_intake_fini(ps_intake *in);

/* Stores the n bytes of a chunk. After a failure ps_intake_fini removes what there is of the file.
 *
 * DATA_LOSS           wrong checksum, or chunks out of order
 * INVALID_ARGUMENT    a file that such a node does not leave (left_files.h), or has sent before
 * OUT_OF_RANGE        weights that are not finite; has_diverged is set
 * RESOURCE_EXHAUSTED  the disk has no room for the file
 */
PS_MUST_USE ps_status ps_intake_chunk(ps_intake *in, const Psgd__V1__CollectResponse *head,
                                      const uint8_t *bytes, size_t n);
/* Handles the end of the stream. Returns DATA_LOSS if a file is unfinished. */
PS_MUST_USE ps_status ps_intake_end(ps_intake *in);

/* Writes the name under which the weights of server `rank` are stored until the model is
 * written. */
void ps_artifacts_part_name(char out[32], uint32_t rank);

/* Writes the name under which a rank's part of the record of rounds is stored until the whole
 * record is written (common/artifact/round_record.h). */
void ps_artifacts_rounds_name(char out[32], uint32_t rank);

/* Write the name under which a node's part of the timeline is stored until the timeline is made
 * (common/trace/trace_file.h). `rank`: the first rank of a worker process, or the rank of a
 * server. */
void ps_artifacts_worker_trace_name(char out[32], uint32_t rank);
void ps_artifacts_server_trace_name(char out[32], uint32_t rank);

#endif
