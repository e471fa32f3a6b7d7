/* SPDX-License-Identifier: Apache-2.0 */
/* init_from.h - finds the model that a job starts from (JobSpec.init_from) and the files of its
 * sparse tables (init_tables).
 *
 * They are looked up when the job is submitted, so that errors are reported at once, and again at
 * each attempt. Reads the registry and files: any thread but the loop's.
 */
#ifndef PS_COORDINATOR_INIT_FROM_H
#define PS_COORDINATOR_INIT_FROM_H

#include "common/base/sha256.h"
#include "common/job/plan.h"
#include "common/pki/principal.h"
#include "services/coordinator/io/registry.h"

enum { PS_INIT_PATH_MAX = 2048 };

/* The places where files to start from are searched. All members are borrowed. */
typedef struct ps_init_where {
    ps_registry *reader;   /* registry that knows the files of jobs */
    const char *data_dir;  /* contains the folders of jobs */
    const char *data_path; /* contains all other files; NULL or "": none */
    /* principal that must be allowed to see the jobs whose files are used; NULL: that is not
     * checked */
    const ps_principal *caller;
} ps_init_where;

/* Finds the model to start from. Writes its path; "" if the job draws its weights. sha256 becomes
 * the file's digest, in hexadecimal, as the registry or the checkpoint's manifest has it; "" for a
 * file below the data path.
 *
 * NOT_FOUND            no such job or file, or no data path
 * PERMISSION_DENIED    the caller may not see the job
 * FAILED_PRECONDITION  the job has left no model, or is not over
 * DATA_LOSS            the checkpoint is damaged
 * INVALID_ARGUMENT     the path leads out of the data path
 */
PS_MUST_USE ps_status ps_init_find(const ps_init_where *where, const ps_plan *plan,
                                   char path[PS_INIT_PATH_MAX], char sha256[PS_SHA256_HEX_BYTES]);

/* Finds the model as ps_init_find does, and checks by its header that it has the variables of the
 * plan's model. If it is of a checkpoint, also checks that the job can go on from that. */
PS_MUST_USE ps_status ps_init_check(const ps_init_where *where, const ps_plan *plan);

/* Files that a job starts from, in order: of its sparse tables, or of a checkpoint. */
typedef struct ps_init_tables {
    char **paths;    /* (count) */
    uint64_t *sizes; /* (count): bytes */
    /* (count) digest, as ps_init_find writes it; "": not known */
    char (*sha256)[PS_SHA256_HEX_BYTES];
    size_t count;
} ps_init_tables;

/* Finds the files from which the job's sparse tables start (init_tables). Fills a zeroed *out,
 * which the caller frees by ps_init_tables_fini, after a failure too. Returns FAILED_PRECONDITION
 * if a job has left no tables or is not over, INVALID_ARGUMENT if a file is too large or empty;
 * else fails as ps_init_find does. */
PS_MUST_USE ps_status ps_init_find_tables(const ps_init_where *where, const ps_plan *plan,
                                          ps_init_tables *out);
void ps_init_tables_fini(ps_init_tables *tables);

/* Finds the files of the checkpoint from which the job goes on, and its clock; no files if there is
 * no checkpoint. Fills zeroed structs, which the caller frees by ps_init_tables_fini, after a
 * failure too. Checks the sizes of the files; is_thorough: also their SHA-256.
 *
 * NOT_FOUND            no such job or checkpoint
 * DATA_LOSS            it is damaged; names the file
 * FAILED_PRECONDITION  it is of a job that computes something else or has other ranks, of another
 *                      job than the one that is named, or at the end of the job
 */
PS_MUST_USE ps_status ps_init_find_checkpoint(const ps_init_where *where, const ps_plan *plan,
                                              bool is_thorough, ps_init_tables *servers,
                                              ps_init_tables *ranks, uint64_t *clock);

/* Finds the files as ps_init_find_tables does, and checks by the head of each file that it is of
 * one of this job's tables and that no file is missing. */
PS_MUST_USE ps_status ps_init_check_tables(const ps_init_where *where, const ps_plan *plan);

/* Compares the SHA-256 of the job's data set with that of the checkpoint that the job goes on from,
 * if both are known. FAILED_PRECONDITION: they differ; else fails as ps_init_find_checkpoint. */
PS_MUST_USE ps_status ps_init_check_data(const ps_init_where *where, const ps_plan *plan,
                                         const char *sha256);

#endif
