/* SPDX-License-Identifier: Apache-2.0 */
/* data_store.h - receives the files of a data set and keeps them.
 *
 * Files come one after the other in pieces in order; each is checked against
 * its length and checksum. They are written into a folder beside the final one,
 * which takes its name only when all are there. Loop thread.
 */
#ifndef PS_COMMON_NODE_DATA_STORE_H
#define PS_COMMON_NODE_DATA_STORE_H

#include "common/base/sha256.h"
#include "common/data/dataset.h"

#include <stdbool.h>

typedef struct ps_data_store {
    char folder[512];    /* the final one */
    char temporary[512]; /* "": not open */
    ps_data_file files[PS_DATA_FILES_MAX];
    size_t count;
    size_t file; /* that is being received; count: all are there */
    uint64_t at; /* bytes of it that are there */
    int fd;      /* -1: none */
    ps_sha256 sha;
} ps_data_store;

/* `files` have safe names; copied. */
PS_MUST_USE ps_status ps_data_store_open(ps_data_store *store, const char *folder,
                                         const ps_data_file *files, size_t count);

/* A piece of file `file` from `offset` on.
 * OUT_OF_RANGE   not where the last piece ended, or beyond the file's end
 * DATA_LOSS      complete, with another checksum */
PS_MUST_USE ps_status ps_data_store_add(ps_data_store *store, uint32_t file, uint64_t offset,
                                        const void *bytes, size_t n, bool *is_complete);

bool ps_data_store_has_all(const ps_data_store *store);

/* Gives the folder its name. Ends the store, also when it fails. */
PS_MUST_USE ps_status ps_data_store_commit(ps_data_store *store);
/* No trace is left; legal when ended or zeroed. */
void ps_data_store_abandon(ps_data_store *store);

#endif
