/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - manifest.json, which lists the files of a job, or of a checkpoint, for programs. It
 * is written last: if it exists, every file that it names is whole. */
#ifndef PS_COMMON_ARTIFACT_MANIFEST_H
#define PS_COMMON_ARTIFACT_MANIFEST_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* A file of the job's directory. Texts are borrowed. */
typedef struct ps_manifest_file {
    const char *name;    /* name in the directory */
    const char *kind;    /* "log", "report", "model", ... */
    const char *node_id; /* the node that made it; "" for the coordinator */
    uint64_t size;       /* bytes */
    char sha256[65];
} ps_manifest_file;

/* Sets size and sha256 from the file dir/name. Errors are those of reading it. */
PS_MUST_USE ps_status ps_manifest_measure(const char *dir, ps_manifest_file *file);

/* Writes {"files":[{"name","kind","size","sha256","node_id"}, ...]} atomically. */
PS_MUST_USE ps_status ps_manifest_write(const char *path, const ps_manifest_file *files,
                                        size_t count);

/* Reads a list as ps_manifest_write writes it from n bytes of anything, and calls fn for each file,
 * whose texts are valid until fn returns. Names are safe (files.h), a SHA-256 is lower-case hex.
 * Returns DATA_LOSS, which names the place, if the text is no list of at most `most` files, or the
 * first failure of fn. */
PS_MUST_USE ps_status ps_manifest_parse(const char *text, size_t n, size_t most,
                                        ps_status (*fn)(void *arg, const ps_manifest_file *file),
                                        void *arg);

#endif
