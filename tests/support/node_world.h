/* SPDX-License-Identifier: Apache-2.0 */
/* node_world.h - a node on loopback, with a coordinator that does what the test says.
 *
 * The loop runs on a thread of its own; tests call from theirs and wait for
 * what is to happen with a deadline. What the coordinator and the role have seen
 * is in `seen`, guarded by the mutex: read it in a predicate of nw_await.
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

/* One of the coordinators; everything but server and address is under the mutex. */
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
    uint64_t steps; /* of the progress in it */
    ps_strbuf log;  /* as shipped */
    ps_call *ready; /* kept until the test answers */
    bool has_left;  /* the node has said that it leaves */
    /* What it shall do. */
    bool forget;        /* the next heartbeat is NOT_FOUND */
    bool abort_it;      /* heartbeats about a job answer ABORT */
    bool is_lost;       /* and that the attempt is lost */
    bool answers_ready; /* at once */
} nw_coordinator;

struct node_world {
    ps_loop *loop;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    temp_dir dir;
    nw_coordinator coordinator[NW_COORDINATORS];
    ps_channel *channel; /* to the node */
    ps_node *node;
    Psgd__V1__NodeRole role;
    char address[64]; /* the node's */

    /* The role of most tests; under the mutex. */
    ps_session *session;
    unsigned prepared, ran, released;
    bool fails_prepare, release_waits, is_releasing;
    bool was_lost; /* what ps_node_is_lost said at the last release */

    bool precommit_is_over, collect_is_over;

    ps_task hold; /* of the helper; under the mutex: */
    bool is_let_go, is_held;

    bool node_is_down;
    ps_event node_down;
};

/* Both for the role in the world. A server needs no data set, so it is prepared
 * sooner. */
extern const ps_role_hooks nw_worker_hooks, nw_server_hooks;

/* `state` NULL: the world. */
void nw_begin(node_world *w, const ps_role_hooks *hooks, void *state, const ps_service *extra,
              size_t extra_count, const char *data_path);
void nw_end(node_world *w);
/* Stops the node and waits until it is gone; nw_end after that is fine. */
void nw_stop_node(node_world *w, int64_t grace_us);

/* The node's helper does nothing else from here until it is let go. */
void nw_hold_helper(node_world *w);
void nw_let_helper_go(node_world *w);

/* Waits until a node that is being stopped serves no more; it must not be gone by then. */
void nw_await_no_server(node_world *w);

/* A coordinator goes away, and comes back at the same address. */
void nw_stop_coordinator(node_world *w, unsigned index);
void nw_start_coordinator(node_world *w, unsigned index);

/* Runs fn on the loop's thread and waits for its return. */
void nw_run(node_world *w, void (*fn)(void *arg), void *arg);

/* Waits until fn (under the mutex) is true; fails the test after 90 s. */
void nw_await(node_world *w, bool (*fn)(node_world *w), const char *what);
/* Something under the mutex has changed (called with it held). */
void nw_changed(node_world *w);

/* A unary call to the node; its answer, the caller's to free, or NULL. */
ProtobufCMessage *nw_call(node_world *w, const char *method, const ProtobufCMessage *request,
                          ps_error *error);

/* --- the commit ------------------------------------------------------------- */

/* Answer of CanCommit; coordinator 0 or 1. */
bool nw_can_commit(node_world *w, const char *job_id, uint32_t attempt, unsigned coordinator,
                   uint32_t reserve_ms, ps_error *error);
void nw_do_commit(node_world *w, const char *job_id, uint32_t attempt, ps_error *error);
void nw_abort(node_world *w, const char *job_id, uint32_t attempt, ps_error *error);
Psgd__V1__NodePhase nw_phase(node_world *w); /* by GetStatus */
/* Asks for the phase until it is IDLE: a failed PreCommit is answered before its files are gone. */
void nw_await_idle(node_world *w);

/* What PreCommit sends. begin fills it for (role, rank) of the plan; tests then
 * spoil it as they like. */
typedef struct nw_packages {
    const ps_plan *plan;
    Psgd__V1__NodeRole role;
    uint32_t rank, attempt;
    const char *job_id;
    uint32_t deadline_ms;
    const float *weights; /* (param_count) */
    uint64_t plan_hash, weights_hash;
    const char *folder;                 /* of the data set's files, if there are any */
    const char *data_sha256;            /* NULL: the true one */
    unsigned stop_after;                /* packages sent, then the stream is cancelled; 0: all */
    bool skips_weights, skips_settings; /* the offer of data comes first */
    bool corrupts_data;

    /* A file of sparse tables, behind the weights and in two pieces; NULL: none. What is said of
     * it may be wrong: the whole size, the second piece's place and number of the file. */
    const uint8_t *table;
    size_t table_len;
    uint64_t table_size, table_at;
    uint32_t table_file;
} nw_packages;

typedef struct nw_precommit_result {
    ps_error error;
    unsigned acks;
    bool needed_data, sealed;
    uint64_t data_bytes; /* sent */
} nw_precommit_result;

nw_packages nw_packages_of(const ps_plan *plan, Psgd__V1__NodeRole role, uint32_t rank,
                           const char *job_id, uint32_t attempt, const float *weights);
/* The file, and what is true of it. */
void nw_add_table(nw_packages *packages, const uint8_t *bytes, size_t len);
void nw_precommit(node_world *w, const nw_packages *packages, nw_precommit_result *result);
/* The same in two calls, with others between them. */
typedef struct nw_sender nw_sender;
nw_sender *nw_precommit_begin(node_world *w, const nw_packages *packages,
                              nw_precommit_result *result);
void nw_precommit_end(nw_sender *sender);

/* Collects everything, checked chunk by chunk and file by file. */
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

/* A plan from JSON, and initial weights of it (free). */
ps_plan *nw_plan(const char *json);
float *nw_weights(const ps_plan *plan);

#endif
