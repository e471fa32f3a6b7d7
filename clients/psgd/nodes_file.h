/* SPDX-License-Identifier: Apache-2.0 */
/* nodes_file.h - worker.json: which nodes a job shall use.
 *
 * Any of the three forms that are in use:
 *
 *     {"PS": "10.0.0.1", "Worker": ["10.0.0.2", "10.0.0.3:15387"]}
 *     [["PS", "10.0.0.1"], ["Worker", "10.0.0.2"], ["Worker", "10.0.0.3"]]
 *     [[-2, "uuid", "10.0.0.1"], [0, "uuid", "10.0.0.2"], [1, "uuid", "10.0.0.3"]]
 *
 * "PS" may also be a list. An address without a port gets 15387 (workers) or
 * 15388 (parameter servers).
 */
#ifndef PS_CLIENTS_PSGD_NODES_FILE_H
#define PS_CLIENTS_PSGD_NODES_FILE_H

#include "common/rpc/error.h"

#include "psgd/v1/job.pb-c.h"

#include <jansson.h>

enum {
    PS_NODES_WORKER_PORT = 15387,
    PS_NODES_PSERVER_PORT = 15388,
    PS_NODES_FILE_MAX = 1024 /* entries of a file */
};

/* Sets spec->nodes, workers and pservers from the first n_workers workers and
 * n_pservers servers of the file (0: all of them), workers in the order of
 * their ids where they have one. The spec's memory is malloc's.
 *
 * INVALID_ARGUMENT names the entry that is wrong; the spec is then as before. */
PS_MUST_USE ps_status ps_nodes_take(const json_t *json, uint64_t n_workers, uint64_t n_pservers,
                                    Psgd__V1__JobSpec *spec);

/* The same from a file; errors start with its path. */
PS_MUST_USE ps_status ps_nodes_take_file(const char *path, uint64_t n_workers, uint64_t n_pservers,
                                         Psgd__V1__JobSpec *spec);

#endif
