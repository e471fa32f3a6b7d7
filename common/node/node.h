/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - what a worker and a parameter server have in common.
 *
 * A node serves NodeService, keeps itself registered with its coordinator,
 * ships its progress and its log of the job by heartbeat, receives the packages
 * of PreCommit, goes to the barrier, and gives its files to Collect. What the
 * node does with a job is its role's: a const table of hooks. One loop's thread.
 */
#ifndef PS_COMMON_NODE_NODE_H
#define PS_COMMON_NODE_NODE_H

#include "common/base/buf.h"
#include "common/job/plan.h"
#include "common/node/agent.h"
#include "common/node/fault.h"
#include "common/placement/placement.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/store/tables.h"
#include "common/wire/identity.h"

#include "psgd/v1/coordinator.pb-c.h"
#include "psgd/v1/node.pb-c.h"

#include <stdatomic.h>

typedef struct ps_node ps_node;

/* Files that a node may leave of an attempt, its log too: a server has a table of each embedding.
 */
enum { PS_NODE_FILES_MAX = PS_MODEL_LAYERS_MAX + 32 };

/* Reason of a Collect that failed because the node's own disk is full: worth another try. */
#define PS_NODE_NO_ROOM "NO_ROOM"

/* One attempt, complete: what the packages of PreCommit brought. The node
 * owns it; it lives from prepare to release. */
typedef struct ps_session {
    char job_id[PS_JOB_ID_MAX];
    uint32_t attempt;
    uint32_t rank;       /* a server's; of a worker the first of its ranks */
    uint32_t *ranks;     /* (rank_count): those that a worker carries, ascending */
    uint32_t rank_count; /* 0 on a server */
    ps_plan *plan;
    /* Initial weights as float32: a worker's whole block (param_count), a
     * server's own slices one after the other in ascending order. */
    float *weights;
    size_t weight_count;
    ps_tables *tables; /* a server's, with the rows that it was sent; NULL: none, they begin anew.
                        * A role that takes them sets NULL */
    ps_dataset *data;  /* NULL on a parameter server; owned by the node's cache */
    ps_placement placement; /* of the plan's layout: all servers and all ranks */
    char folder[512];       /* for the attempt's files; everything in it named by ps_node_keep is
                               collected */
} ps_session;

/* Returns the attempt as streams between workers and servers name it; borrows the job's id. */
static inline ps_wire_attempt ps_session_attempt(const ps_session *session)
{
    return (ps_wire_attempt){.job_id = session->job_id,
                             .attempt = session->attempt,
                             .worker_count = session->placement.rank_count,
                             .layout_hash = session->plan->layout.hash};
}

/* What a role does. All on the loop's thread but save. */
typedef struct ps_role_hooks {
    Psgd__V1__NodeRole role;
    const char *service; /* "psgd-worker" */
    /* Everything is there: build what can fail (memory, streams not yet). */
    PS_MUST_USE ps_status (*prepare)(void *state, ps_session *session);
    /* The barrier opened: begin. Ends with ps_node_finished, once. */
    void (*run)(void *state);
    /* Drop everything of the session; may come at any time after a prepare that
     * was OK. Must end in ps_node_released, at once or later, and soon (bounded). */
    void (*release)(void *state);
    /* Collect comes, perhaps again after one that broke: name what there is with ps_node_keep or
     * ps_node_keep_bytes. A failure is the call's, as INTERNAL: the coordinator fails the job with
     * it. A role that has this hook is also collected from while it runs. (optional) */
    PS_MUST_USE ps_status (*collect)(void *state);
    /* After each collect that was OK, on the helper's thread: write what takes time of what collect
     * named. What it reads nobody may change any more. `stop` set: nobody wants it, fail soon, for
     * release waits. RESOURCE_EXHAUSTED: the disk is full, it comes again; another failure is taken
     * as collect's. (optional) */
    PS_MUST_USE ps_status (*save)(void *state, const atomic_bool *stop);
    /* The job goes on without this worker; told again and again. (optional) */
    void (*lose)(void *state, uint32_t worker);
    /* Returns how many messages of progress there are and lends a list of them for heartbeat and
     * GetStatus, while there is a session: one a rank. The list is the role's until the next
     * call. (optional) */
    size_t (*progress)(void *state, Psgd__V1__WorkerProgress ***list);
    /* Fills counters for heartbeat and GetStatus, while there is a session. Lists are the role's
     * until the next call. */
    void (*counters)(void *state, Psgd__V1__ServerCounters *counters); /* (optional) */
} ps_role_hooks;

typedef struct ps_node_conf {
    const char *listen;      /* host:port, port 0 allowed */
    const char *advertise;   /* host[:port]; NULL: the bound address */
    const char *coordinator; /* host:port */
    const char *node_id;     /* NULL: kept in data_dir/node-id, made at first start */
    const char *data_dir;
    const char *data_path; /* where data sets lie already; NULL: none */
    uint32_t threads;      /* of a parameter server; 0: it says nothing of threads */
    ps_faults faults;      /* for tests; all 0: none */
} ps_node_conf;            /* borrowed until ps_node_start returns */

/* 1 to 64 of A-Z a-z 0-9 . _ -. */
bool ps_node_id_is_valid(const char *id);

/* Binds, prints "psgd-worker listening on HOST:PORT" to stdout (flushed), and
 * registers for as long as it lives. `extra` are further services (the
 * parameter server's), copied. What an earlier process left half done in
 * data_dir is removed. UNAVAILABLE if the address cannot be had. */
PS_MUST_USE ps_status ps_node_start(ps_loop *loop, const ps_node_conf *conf,
                                    const ps_role_hooks *hooks, void *state,
                                    const ps_service *extra, size_t extra_count, ps_node **out);

uint64_t ps_node_incarnation(const ps_node *node);
const ps_session *ps_node_session(const ps_node *node); /* NULL when there is none */
ps_phase ps_node_phase(const ps_node *node);
const char *ps_node_address(const ps_node *node); /* host:port that others are told */

/* The role's work ended: files are closed, Collect may come. */
void ps_node_finished(ps_node *node, const ps_status *result);
void ps_node_released(ps_node *node);

/* Names a file in session->folder to be collected; a safe file name (files.h). */
void ps_node_keep(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind);

/* The same with bytes instead of a file; takes the reference. Bytes under the
 * same name before are replaced. */
void ps_node_keep_bytes(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind,
                        ps_buf *bytes);

/* Sends a heartbeat now (new metrics, new phase). */
void ps_node_hurry(ps_node *node);

/* SIGTERM: deregisters nothing (the lease does), refuses new jobs, lets a
 * running job go on for at most grace_us (until its files are collected), then
 * tells its coordinator and ends it; fires done when all is down and the node
 * is freed. */
void ps_node_stop(ps_node *node, int64_t grace_us, ps_event *done);

#endif
