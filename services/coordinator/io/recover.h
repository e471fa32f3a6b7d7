/* SPDX-License-Identifier: Apache-2.0 */
/* recover.h - puts finished jobs back into the registry from the files in their folders.
 *
 * For a registry that was lost, or is older than the files. Nothing in a folder is changed. */
#ifndef PS_COORDINATOR_RECOVER_H
#define PS_COORDINATOR_RECOVER_H

#include "services/coordinator/io/registry.h"

#include <stdio.h>

/* Reads a job from summary.json and manifest.json of its folder: all that GetJob shows except the
 * placements. The caller frees *out by ps_record_fini.
 *
 * NOT_FOUND  one of the two does not exist: the job was not over
 * DATA_LOSS  names the file, and what is wrong with it
 */
PS_MUST_USE ps_status ps_recover_read(const char *data_dir, const char *job_id, ps_record *out);

/* The number of folders by result. */
typedef struct ps_recovery {
    size_t recovered; /* put back into the registry, or updated there */
    size_t differing; /* how many of these have a file that differs from the manifest */
    size_t known;     /* the registry had the job already */
    size_t left;      /* could not be read */
} ps_recovery;

/* Restores every job whose folder exists and whose row is missing or damaged, or not over in a
 * registry that is not as it was last used. Checks the SHA-256 of the files. Writes a line for each
 * folder to `out`. Folders that cannot be read are left as they are. May be repeated. Returns
 * NOT_FOUND if there is no folder of jobs; else fails as ps_registry_open_sqlite does or if storing
 * fails. */
PS_MUST_USE ps_status ps_recover(const char *data_dir, FILE *out, ps_recovery *totals);

#endif
