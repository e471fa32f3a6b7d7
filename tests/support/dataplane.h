/* SPDX-License-Identifier: Apache-2.0 */
/* dataplane.h - a job without a coordinator: plan, sessions, parameter servers.
 *
 * A dp_job is a plan from JSON, with what nodes would get by the packages of PreCommit. A dp_server
 * is the real ParameterService on 127.0.0.1, with real stores for the parts of its threads and for
 * copies.
 */
#ifndef PS_TESTS_SUPPORT_DATAPLANE_H
#define PS_TESTS_SUPPORT_DATAPLANE_H

#include "common/node/node.h"
#include "common/store/store.h"
#include "common/wire/wire_link_grpc.h"
#include "tests/support/side.h"

typedef struct dp_job {
    ps_plan *plan;
    float *weights; /* (param_count): the initial weights of the model */
    /* servers are "ps-0" ... at their addresses; each rank has a process of its own, "worker-0" ...
     */
    ps_placement placement;
} dp_job;

/* Makes a job of a JobSpec in JSON; data are `glyphs` by default. Weights are the model's initial
 * ones. Servers have one thread each (ps_placement_set_threads gives them more), and copies if the
 * job has. */
void dp_job_init(dp_job *job, const char *json);
void dp_job_fini(dp_job *job);

/* Copies the slices that a server holds, and those of which it has copies, from the block of all
 * parameters to `slices`, one after the other.
 */
void dp_gather(const ps_placement *placement, uint32_t server, const float *block, float *slices);

/* Copies `slices`, as dp_gather has written them, back to their places in the block of all
 * parameters. */
void dp_scatter(const ps_placement *placement, uint32_t server, const float *slices, float *block);

/* Fills a worker's session: job "job-1", attempt 1, a copy of the weights, no data. Servers must
 * have been started, because the session has their addresses. */
void dp_worker_session(const dp_job *job, uint32_t rank, ps_session *session);
void dp_session_fini(ps_session *session);

/* A further part that a server has beside its first one: of another thread, or a copy. It is served
 * as an instance of the service. */
typedef struct dp_part {
    uint32_t number;     /* number of the part in the placement */
    ps_wire_parts parts; /* has this part alone */
    ps_wire_server *wire;
    char instance[PS_GRPC_WIRE_INSTANCE_BYTES];
} dp_part;

typedef struct dp_server {
    const dp_job *job;
    side *on; /* loop of the server; kept */
    ps_session session;
    ps_wire_parts parts; /* has the server's first part alone */
    ps_store *store;     /* the store of `parts` */
    ps_wire_server *wire;
    dp_part *more; /* (more_count) */
    uint32_t more_count;
    ps_server *server;
    char address[32];
} dp_server;

/* Starts server `rank` of the job and writes its address into the job. */
void dp_server_start(dp_server *s, side *on, dp_job *job, uint32_t rank, uint64_t drop_ack);

/* Breaks all connections and stops listening. */
void dp_server_break(dp_server *s);
/* Listens again at the same port, with the same store. */
void dp_server_resume(dp_server *s);

/* Ends the attempt at the server. The server still listens, but refuses all calls. */
void dp_server_close(dp_server *s);

/* Closes the streams and stops the server. May be repeated. The store stays until fini. */
void dp_server_stop(dp_server *s);
void dp_server_fini(dp_server *s);

/* Copies the server's weights to their places in the block of all parameters. */
void dp_server_weights(dp_server *s, float *block);

#endif
