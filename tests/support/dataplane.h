/* SPDX-License-Identifier: Apache-2.0 */
/* dataplane.h - a job without a coordinator: plan, sessions, parameter servers.
 *
 * A dp_job is a plan from JSON and what the packages of PreCommit would bring.
 * A dp_server is the real service over real shards on 127.0.0.1: those of its threads, and copies.
 */
#ifndef PS_TESTS_SUPPORT_DATAPLANE_H
#define PS_TESTS_SUPPORT_DATAPLANE_H

#include "common/node/node.h"
#include "common/store/store.h"
#include "common/wire/wire_link_grpc.h"
#include "tests/support/side.h"

typedef struct dp_job {
    ps_plan *plan;
    float *weights;         /* (param_count), initial */
    ps_placement placement; /* "ps-0" at "127.0.0.1:40312"; a process a rank, "worker-0" */
} dp_job;

/* Makes a job of a JobSpec in JSON; data are `glyphs` by default. Weights are the model's initial
 * ones. Servers have one thread each (ps_placement_set_threads gives them more), and copies if the
 * job has. */
void dp_job_init(dp_job *job, const char *json);
void dp_job_fini(dp_job *job);

/* Copies the slices that a server holds, also as copies, from the whole block, one after the other.
 */
void dp_gather(const ps_placement *placement, uint32_t server, const float *block, float *slices);

/* Copies a server's slices back to their places in the whole block. */
void dp_scatter(const ps_placement *placement, uint32_t server, const float *slices, float *block);

/* Fills a worker's session: job "job-1", attempt 1, a copy of the weights, no data. Servers must
 * have been started, because the session has their addresses. */
void dp_worker_session(const dp_job *job, uint32_t rank, ps_session *session);
void dp_session_fini(ps_session *session);

/* A part of the placement that a server has beside its first one, as an instance of the service. */
typedef struct dp_part {
    uint32_t number;     /* in the placement */
    ps_wire_parts parts; /* one */
    ps_wire_server *wire;
    char instance[PS_GRPC_WIRE_INSTANCE_BYTES];
} dp_part;

typedef struct dp_server {
    const dp_job *job;
    side *on; /* kept */
    ps_session session;
    ps_wire_parts parts; /* one */
    ps_store *store;     /* its */
    ps_wire_server *wire;
    dp_part *more; /* (more_count) */
    uint32_t more_count;
    ps_server *server;
    char address[32];
} dp_server;

/* Starts server `rank` of the job and writes its address into the job. */
void dp_server_start(dp_server *s, side *on, dp_job *job, uint32_t rank, uint64_t drop_ack);

/* Breaks all connections and stops listening; or listens again at the same port, with the same
 * store. */
void dp_server_break(dp_server *s);
void dp_server_resume(dp_server *s);

/* Ends the attempt; the server still answers, with refusals. */
void dp_server_close(dp_server *s);

/* Closes the streams and stops the server. May be repeated. The store stays until fini. */
void dp_server_stop(dp_server *s);
void dp_server_fini(dp_server *s);

/* Copies the server's weights to their places in the whole block. */
void dp_server_weights(dp_server *s, float *block);

#endif
