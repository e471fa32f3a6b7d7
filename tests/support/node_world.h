/* SPDX-License-Identifier: Apache-2.0 */
/* node_world.h - a node on loopback, with a coordinator that does what the test says.
 *
 * The loop runs on a thread of its own. Tests call the functions from their own thread, and wait
 * with a deadline for what must happen. The members that say what the coordinator and the role have
 * seen are guarded by the mutex: read them in a predicate of nw_await.
 */
#ifndef PS_TESTS_SUPPORT_NODE_WORLD_H
#define PS_TESTS_SUPPORT_NODE_WORLD_H

#include "common/base/strbuf.h"
#include "common/node/node.h"
#include "common/rpc/tasks.h"
#include "tests/support/temp_dir.h"

#include <pthread.h>

enum { NW_REPLY_US = 80000000, NW_COORDINATORS = 2 };

typedef struct node_world node_world;

/* One of the coordinators. The mutex guards all members but `server` and `address`. */
typedef struct nw_coordinator {
    node_world *world;
    ps_server *server; /* NULL: stopped */
    ps_service service;
    ps_event down;
    char address[64];
    /* What it has seen. */
    unsigned registrations, heartbeats, readies;
    Psgd__V1__NodePhase phase; /* of the last heartbeat before it left */
    char job_id[PS_JOB_ID_MAX];
    uint32_t attempt, error_code;
    uint64_t steps; /* steps in the progress of that heartbeat */
    ps_strbuf log;  /* the node's log, from the pieces in its heartbeats */
    ps_call *ready; /* kept until the test answers */
    bool has_left;  /* the node has said that it leaves */
    /* What the test wants it to do. */
    bool forget;        /* the next heartbeat is NOT_FOUND */
    bool abort_it;      /* heartbeats about a job answer ABORT */
    bool is_lost;       /* with abort_it: these answers also say that the attempt is lost */
    bool answers_ready; /* answers Ready at once; false: the test answers */
} nw_coordinator;

struct node_world {
    ps_loop *loop;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    temp_dir dir;
    nw_coordinator coordinator[NW_COORDINATORS];
    ps_channel *channel; /* channel to the node */
    ps_node *node;
    Psgd__V1__NodeRole role;
    char address[64]; /* address of the node */

    /* State of the role hooks that most tests use; guarded by the mutex. */
    ps_session *session;
    unsigned prepared, ran, released;
    bool fails_prepare, release_waits, is_releasing;
    bool was_lost; /* what ps_node_is_lost said at the last release */

    bool precommit_is_over, collect_is_over;

    ps_task hold; /* a task that keeps the node's helper thread busy; the mutex guards: */
    bool is_let_go, is_held;

    bool node_is_down;
    ps_event node_down;
};

/* Role hooks that keep their state in the node_world. A server needs no data set, so it is prepared
 * sooner than a worker. */
extern const ps_role_hooks nw_worker_hooks, nw_server_hooks;

/* Starts the coordinators and a node with these hooks and services. `state` is the state of the
 * hooks; NULL: the node_world. */
void nw_begin(node_world *w, const ps_role_hooks *hooks, void *state, const ps_service *extra,
              size_t extra_count, const char *data_path);
void nw_end(node_world *w);
/* Stops the node and waits until it is gone; nw_end after that is fine. */
void nw_stop_node(node_world *w, int64_t grace_us);

/* Keeps the node's helper thread busy, so that it does nothing else until nw_let_helper_go. */
void nw_hold_helper(node_world *w);
void nw_let_helper_go(node_world *w);

/* Waits until a node that is being stopped serves no more; it must not be gone by then. */
void nw_await_no_server(node_world *w);

/* Stops a coordinator. */
void nw_stop_coordinator(node_world *w, unsigned index);
/* Starts a stopped coordinator again at the same address. */
void nw_start_coordinator(node_world *w, unsigned index);

/* Runs fn on the loop's thread and waits for its return. */
void nw_run(node_world *w, void (*fn)(void *arg), void *arg);

/* Waits until fn (under the mutex) is true; fails the test after 90 s. */
void nw_await(node_world *w, bool (*fn)(node_world *w), const char *what);
/* Wakes nw_await, because something that the mutex guards has changed. The caller holds the mutex.
 */
void nw_changed(node_world *w);

/* Makes a unary call to the node. Returns the answer, which the caller frees; or NULL, and fills
 * *error. */
ProtobufCMessage *nw_call(node_world *w, const char *method, const ProtobufCMessage *request,
                          ps_error *error);

/* --- the commit ------------------------------------------------------------- */

/* Calls CanCommit in the name of coordinator 0 or 1. Returns whether the node is reserved. */
bool nw_can_commit(node_world *w, const char *job_id, uint32_t attempt, unsigned coordinator,
                   uint32_t reserve_ms, ps_error *error);
void nw_do_commit(node_world *w, const char *job_id, uint32_t attempt, ps_error *error);
void nw_abort(node_world *w, const char *job_id, uint32_t attempt, ps_error *error);
Psgd__V1__NodePhase nw_phase(node_world *w); /* asks the node by GetStatus */
/* Asks for the phase until it is IDLE: a failed PreCommit is answered before its files are gone. */
void nw_await_idle(node_world *w);

/* What PreCommit sends. nw_packages_of fills it for a role and rank of the plan; tests may then
 * change it to something wrong. */
typedef struct nw_packages {
    const ps_plan *plan;
    Psgd__V1__NodeRole role;
    uint32_t rank, attempt;
    const char *job_id;
    uint32_t deadline_ms;
    const float *weights; /* (param_count) */
    uint64_t plan_hash, weights_hash;
    const char *folder; /* folder of the data set's files, if there are any */
    /* checksum in the offer of the data set; NULL: the right one */
    const char *data_sha256;
    /* the stream is cancelled after so many packages; 0: all are sent */
    unsigned stop_after;
    bool skips_weights, skips_settings; /* skips_settings: the offer of data is sent first */
    bool corrupts_data;

    /* A file of sparse tables, behind the weights and in two pieces; NULL: none. What is said of
     * it may be wrong: the whole size, the second piece's place and number of the file. */
    const uint8_t *table;
    size_t table_len;
    uint64_t table_size, table_at;
    uint32_t table_file;
    const uint64_t *shrinks; /* (shrink_count): of the settings */
    size_t shrink_count;
} nw_packages;

typedef struct nw_precommit_result {
    ps_error error;
    unsigned acks;
    bool needed_data, sealed;
    uint64_t data_bytes; /* bytes of data files that were sent */
} nw_precommit_result;

nw_packages nw_packages_of(const ps_plan *plan, Psgd__V1__NodeRole role, uint32_t rank,
                           const char *job_id, uint32_t attempt, const float *weights);
/* Adds a file of sparse tables, with the right size, place and number. */
void nw_add_table(nw_packages *packages, const uint8_t *bytes, size_t len);
void nw_precommit(node_world *w, const nw_packages *packages, nw_precommit_result *result);
/* The same in two calls, with others between them. */
typedef struct nw_sender nw_sender;
nw_sender *nw_precommit_begin(node_world *w, const nw_packages *packages,
                              nw_precommit_result *result);
void nw_precommit_end(nw_sender *sender);

/* A file that nw_collect has received. */
typedef struct nw_file {
    char name[160];
    Psgd__V1__ArtifactKind kind;
    ps_strbuf bytes;
} nw_file;
typedef struct nw_collected {
    ps_error error;
    size_t count;
    nw_file files[64];
} nw_collected;
void nw_collect(node_world *w, const char *job_id, uint32_t attempt, nw_collected *out);
/* The same in two calls, with others between them. */
typedef struct nw_collector nw_collector;
nw_collector *nw_collect_begin(node_world *w, const char *job_id, uint32_t attempt,
                               nw_collected *out);
void nw_collect_end(nw_collector *collector);
void nw_collected_fini(nw_collected *c);

/* Makes a plan from a JobSpec in JSON. */
ps_plan *nw_plan(const char *json);
/* Returns initial weights of the plan's model, which the caller frees. */
float *nw_weights(const ps_plan *plan);

#endif
