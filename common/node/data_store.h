/* SPDX-License-Identifier: Apache-2.0 */
/* data_store.h - receives the files of a data set and stores them.
 *
 * Files arrive one after the other, each in pieces in order, and are checked by length and
 * checksum. They are written to a temporary folder beside the final one. When all are complete, the
 * temporary folder is renamed. All functions wait for the disk: call them in tasks, one at a
 * time. */
#ifndef PS_COMMON_NODE_DATA_STORE_H
#define PS_COMMON_NODE_DATA_STORE_H

#include "common/base/sha256.h"
#include "common/data/identify.h"

#include <stdbool.h>

typedef struct ps_data_store {
    char folder[512];    /* the folder that the set will have */
    char temporary[512]; /* the folder to which files are written; "": the store is not open */
    const ps_data_files *files;
    size_t file; /* the file being received; files->count: all are complete */
    uint64_t at; /* bytes of this file that were received */
    int fd;      /* open for writing this file; -1: none */
    ps_sha256 sha;
} ps_data_store;

/* Opens the store with the list of files to come, which it keeps. The files' names must have been
 * checked to be safe. */
PS_MUST_USE ps_status ps_data_store_open(ps_data_store *store, const char *folder,
                                         const ps_data_files *files);

/* Writes a piece of file `file` at `offset`. *is_complete becomes whether the file is complete now.
 *
 * OUT_OF_RANGE  `offset` is not where the last piece ended, or the piece goes beyond the file's end
 * DATA_LOSS     the file is complete and has another checksum
 */
PS_MUST_USE ps_status ps_data_store_add(ps_data_store *store, uint32_t file, uint64_t offset,
                                        const void *bytes, size_t n, bool *is_complete);

bool ps_data_store_has_all(const ps_data_store *store);

/* Renames the temporary folder to its final name. The store is ended afterwards, also after a
 * failure. */
PS_MUST_USE ps_status ps_data_store_commit(ps_data_store *store);
/* Removes everything that was written. A zeroed or ended store is allowed. */
void ps_data_store_abandon(ps_data_store *store);

#endif
