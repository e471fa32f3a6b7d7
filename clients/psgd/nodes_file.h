/* SPDX-License-Identifier: Apache-2.0 */
/* nodes_file.h - reads worker.json, the file of the nodes that a job is to use.
 *
 * It may have one of three forms:
 *
 *   {"PS": "10.0.0.1", "Worker": ["10.0.0.2", "10.0.0.3:15387"]}
 *   [["PS", "10.0.0.1"], ["Worker", "10.0.0.2"], ["Worker", "10.0.0.3"]]
 *   [[-2, "uuid", "10.0.0.1"], [0, "uuid", "10.0.0.2"], [1, "uuid", "10.0.0.3"]]
 *
 * "PS" may also be a list, or be left out for an exchange among workers. An address without a port
 * gets 15387 (workers) or 15388 (parameter servers).
 */
#ifndef PS_CLIENTS_PSGD_NODES_FILE_H
#define PS_CLIENTS_PSGD_NODES_FILE_H

#include "common/rpc/error.h"

#include "psgd/v1/spec.pb-c.h"

#include <jansson.h>

enum {
    PS_NODES_WORKER_PORT = 15387,
    PS_NODES_PSERVER_PORT = 15388,
    PS_NODES_FILE_MAX = 1024 /* entries of a file */
};

/* Sets spec->nodes, workers and pservers from the first n_workers workers and n_pservers servers of
 * the file; 0 takes all. Workers are in the order of their ids if they have ids. The memory of
 * `spec` comes from malloc.
 *
 * Fails with INVALID_ARGUMENT, which names the wrong entry; `spec` is then unchanged.
 */
PS_MUST_USE ps_status ps_nodes_take(const json_t *json, uint64_t n_workers, uint64_t n_pservers,
                                    Psgd__V1__JobSpec *spec);

/* Reads the file `path` and does what ps_nodes_take does. The text of an error begins with the
 * path. */
PS_MUST_USE ps_status ps_nodes_take_file(const char *path, uint64_t n_workers, uint64_t n_pservers,
                                         Psgd__V1__JobSpec *spec);

#endif
