/* SPDX-License-Identifier: Apache-2.0 */
/* init_from.h - the model that a job starts from (JobSpec.init_from) and the rows of its sparse
 * tables (init_tables), as files here.
 *
 * Looked up when the job is submitted, so that what is wrong is told at once,
 * and again at each attempt. Reads the registry and files: any thread but the loop's.
 */
#ifndef PS_COORDINATOR_INIT_FROM_H
#define PS_COORDINATOR_INIT_FROM_H

#include "common/base/sha256.h"
#include "common/job/plan.h"
#include "services/coordinator/io/registry.h"

enum { PS_INIT_PATH_MAX = 2048 };

/* Where files to start from are looked for. All borrowed. */
typedef struct ps_init_where {
    ps_registry *reader;   /* knows the files of jobs, */
    const char *data_dir;  /* which are below this folder */
    const char *data_path; /* of other files; NULL or "": there are none */
} ps_init_where;

/* The file's path; "" when the job draws its weights. sha256: what the registry has of it, in
 * hexadecimal, "" for a file below the data path.
 *
 * NOT_FOUND            no such job or file, or no data path
 * FAILED_PRECONDITION  the job has left no model
 * INVALID_ARGUMENT     the path leads out of the data path */
PS_MUST_USE ps_status ps_init_find(const ps_init_where *where, const ps_plan *plan,
                                   char path[PS_INIT_PATH_MAX], char sha256[PS_SHA256_HEX_BYTES]);

/* The same, and the file's header is read: has it this model's variables? */
PS_MUST_USE ps_status ps_init_check(const ps_init_where *where, const ps_plan *plan);

/* Files that the job's sparse tables start from, in order. */
typedef struct ps_init_tables {
    char **paths;                        /* (count) */
    uint64_t *sizes;                     /* (count): bytes */
    char (*sha256)[PS_SHA256_HEX_BYTES]; /* (count): as the registry has it, "" if it does not */
    size_t count;
} ps_init_tables;

/* Into a zeroed one, which fini frees, also after a failure. FAILED_PRECONDITION: a job has left
 * none; INVALID_ARGUMENT: of a size that none may have; else as ps_init_find. */
PS_MUST_USE ps_status ps_init_find_tables(const ps_init_where *where, const ps_plan *plan,
                                          ps_init_tables *out);
void ps_init_tables_fini(ps_init_tables *tables);

/* The same, and the head of each is read: are they of this job's tables, and all there? */
PS_MUST_USE ps_status ps_init_check_tables(const ps_init_where *where, const ps_plan *plan);

#endif
