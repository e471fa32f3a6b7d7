/* SPDX-License-Identifier: Apache-2.0 */
/* recover.h - jobs that are over, read back from the files in their folders.
 *
 * For a registry that was lost, or is older than the files. Nothing in a folder is changed.
 */
#ifndef PS_COORDINATOR_RECOVER_H
#define PS_COORDINATOR_RECOVER_H

#include "services/coordinator/io/registry.h"

#include <stdio.h>

/* Reads the job from summary.json and manifest.json of its folder: all that GetJob shows but the
 * placements. The caller finis *out.
 *
 * NOT_FOUND  one of the two is not there: the job was not over
 * DATA_LOSS  names the file, and what is wrong with it */
PS_MUST_USE ps_status ps_recover_read(const char *data_dir, const char *job_id, ps_record *out);

/* How many folders there were, by what became of them. */
typedef struct ps_recovery {
    size_t recovered; /* listed again, or brought up to date */
    size_t differing; /* of these: have a file that is not as the manifest says */
    size_t known;     /* the registry has them */
    size_t left;      /* cannot be read */
} ps_recovery;

/* Brings every job into the registry whose folder is there and whose row is not, is damaged, or
 * belongs to an older registry. Checks the SHA-256 of their files. Writes a line a folder to `out`.
 * Folders that cannot be read are left as they are. May be run again. NOT_FOUND: there
 * is no folder of jobs. Else errors of ps_registry_open and of storing. */
PS_MUST_USE ps_status ps_recover(const char *data_dir, FILE *out, ps_recovery *totals);

#endif
