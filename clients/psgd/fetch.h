/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - fetches files of a job into a folder and checks them. Each file is written whole or not
 * at all. */
#ifndef PS_CLIENTS_PSGD_FETCH_H
#define PS_CLIENTS_PSGD_FETCH_H

#include "clients/psgd/reader.h"

#include "common/base/files.h"
#include "common/base/sha256.h"

enum { PS_FETCH_KINDS_MAX = 8 };

typedef struct ps_fetched {
    char *name;
    uint64_t size;
    char sha256[PS_SHA256_HEX_BYTES];
    bool is_verified; /* its SHA-256 was compared with the one that the coordinator has */
} ps_fetched;

/* Reports the end of what ps_fetch_start began. error->status is CANCELLED after ps_fetch_cancel.
 */
typedef void ps_fetch_done_fn(void *arg, const ps_error *error);

typedef struct ps_fetch {
    ps_cli *cli;
    const char *folder; /* must exist; the string must live until the end */
    Psgd__V1__ReclaimLogsRequest request;
    Psgd__V1__ArtifactKind kinds[PS_FETCH_KINDS_MAX];
    ps_fetch_done_fn *done;
    void *arg;
    /* The files that were fetched by all calls of ps_fetch_start so far. */
    ps_fetched *files;
    size_t n_files;
    /* Private. */
    size_t cap;
    ps_reader reader;
    uint8_t *scratch;
    bool is_open;
    ps_file_writer writer;
    ps_sha256 sha;
    char *name; /* name of the file that is being received */
    uint64_t offset;
    ps_status failure; /* why the fetch was given up */
    bool is_cancelled;
} ps_fetch;

/* Initialises a fetch of files of these kinds (n_kinds; 0: all kinds). The strings are borrowed. */
void ps_fetch_init(ps_fetch *fetch, ps_cli *cli, const char *job_id, const char *folder,
                   const Psgd__V1__ArtifactKind *kinds, size_t n_kinds, ps_fetch_done_fn *done,
                   void *arg);

/* Starts to fetch the file `name`, or all files of the kinds if `name` is NULL. May be called again
 * when `done` was called. */
void ps_fetch_start(ps_fetch *fetch, const char *name);

/* Gives up. `done` is still called. */
void ps_fetch_cancel(ps_fetch *fetch);

/* Frees what the fetch holds; a zeroed one is allowed. */
void ps_fetch_fini(ps_fetch *fetch);

#endif
