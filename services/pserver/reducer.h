/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.h - the records that a server has of a job that computes partitions (JobSpec.compute).
 *
 * Workers push the records of each partition to the servers that own their keys. The reducer stores
 * them as files of the attempt. When it has the records of all partitions, a sandbox reduces them
 * into one file, PS_REDUCED_FILE. Loop's thread. */
#ifndef PS_SERVICES_PSERVER_REDUCER_H
#define PS_SERVICES_PSERVER_REDUCER_H

#include "common/node/session.h"
#include "common/rpc/server.h"

typedef struct ps_reducer ps_reducer;

typedef struct ps_reducer_conf {
    ps_loop *loop;
    /* Called once after each ps_reducer_open, unless the reducer is closed before, when all records
     * are reduced, or that has failed. *result is FAILED_PRECONDITION if the job's code has failed,
     * RESOURCE_EXHAUSTED if no sandbox can be started. */
    void (*reduced)(void *arg, const ps_status *result);
    /* Called once after each ps_reducer_close, perhaps within that call. */
    void (*closed)(void *arg);
    void *arg;
} ps_reducer_conf;

/* Creates a reducer without a session. Fails if there are no threads for its tasks. */
PS_MUST_USE ps_status ps_reducer_create(const ps_reducer_conf *conf, ps_reducer **out);
/* Frees the reducer, which must be closed. NULL is allowed. */
void ps_reducer_destroy(ps_reducer *reducer);

/* Returns the RecordService of the reducer; valid until destroy. */
ps_service ps_reducer_service(ps_reducer *reducer);

/* Begins to accept the records of a session, which is kept, and whose job must compute. */
void ps_reducer_open(ps_reducer *reducer, const ps_session *session);

/* Returns whether the reducer has a session: since ps_reducer_open, until `closed` is called. */
bool ps_reducer_is_open(const ps_reducer *reducer);

/* Accepts no further records, and stops the sandbox; `closed` is called soon. */
void ps_reducer_close(ps_reducer *reducer);

#endif
