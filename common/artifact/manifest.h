/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - what a job left behind, for programs: manifest.json says which
 * files there are. It is written last: where it is, everything that it names is whole.
 */
#ifndef PS_COMMON_ARTIFACT_MANIFEST_H
#define PS_COMMON_ARTIFACT_MANIFEST_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* A file of the job's directory. Texts are borrowed. */
typedef struct ps_manifest_file {
    const char *name;    /* in the directory */
    const char *kind;    /* "log", "report", "model", ... */
    const char *node_id; /* who made it; "" for the coordinator */
    uint64_t size;       /* bytes */
    char sha256[65];
} ps_manifest_file;

/* Fills size and sha256 from the file dir/name. */
PS_MUST_USE ps_status ps_manifest_measure(const char *dir, ps_manifest_file *file);

/* {"files":[{"name","kind","size","sha256","node_id"}, ...]}, atomically. */
PS_MUST_USE ps_status ps_manifest_write(const char *path, const ps_manifest_file *files,
                                        size_t count);

#endif
