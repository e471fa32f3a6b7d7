/* SPDX-License-Identifier: Apache-2.0 */
/* node_impl.h - what a node is made of; for common/node alone.
 *
 *   node.c          phases, release
 *   barrier.c       Ready
 *   node_life.c     start and stop
 *   node_service.c  NodeService but for its streams
 *   link.c          registration and heartbeat with one coordinator
 *   precommit*.c    the packages of PreCommit, in order
 *   packages.c      what is in each package, against the node's own plan
 *   collect.c       the files of an attempt, in chunks
 *
 * An attempt begins with CanCommit (begin_attempt) and ends with ps_node_release;
 * its session exists from the seal on. Everything is the loop's thread's.
 */
#ifndef PS_COMMON_NODE_NODE_IMPL_H
#define PS_COMMON_NODE_NODE_IMPL_H

#include "common/base/files.h"
#include "common/node/datasets.h"
#include "common/node/joblog.h"
#include "common/node/node.h"

enum {
    PS_NODE_ID_MAX = 80,
    PS_NODE_CALLS_MAX = 64, /* that wait for the end of a release; further ones are refused */
    PS_NODE_KEPT_MAX = PS_NODE_FILES_MAX - 1 /* files of an attempt, but for its log */
};

typedef struct ps_link ps_link;
typedef struct ps_precommit ps_precommit;
typedef struct ps_collect ps_collect;

/* A file to be collected: in the attempt's folder, or in memory. */
typedef struct ps_kept {
    char name[PS_NAME_MAX + 1];
    Psgd__V1__ArtifactKind kind;
    ps_buf *bytes; /* NULL: a file */
} ps_kept;

/* A call that is answered when the node is idle: CanCommit or Abort. */
typedef struct ps_waiting {
    ps_call *call;
    const Psgd__V1__CanCommitRequest *can_commit; /* NULL: Abort */
} ps_waiting;

typedef struct ps_ready ps_ready;

struct ps_node {
    ps_loop *loop;
    const ps_role_hooks *hooks;
    void *state; /* the hooks' */
    ps_faults faults;
    uint32_t threads; /* as of ps_node_conf */
    char *data_dir;
    char node_id[PS_NODE_ID_MAX];
    char address[PS_NODE_ADDRESS_MAX]; /* where others reach it */
    uint64_t incarnation;
    ps_server *server;
    ps_service *services;
    size_t service_count;
    ps_tasks *tasks; /* one thread: they run in their order */
    ps_datasets *datasets;

    ps_agent agent;
    ps_timer tick;      /* at agent.deadline_us */
    ps_phase announced; /* the phase that was last told to the log and the links */

    ps_link *home;
    ps_link *link; /* the attempt's coordinator; may be home; NULL: none */

    /* The attempt, from RESERVED to the end of its release. */
    char folder[512];
    ps_joblog *log;
    uint64_t log_shipped; /* bytes that the coordinator has */
    ps_precommit *precommit;
    ps_ready *ready; /* standing at the barrier */
    ps_session *session;
    size_t kept_count;
    ps_kept kept[PS_NODE_KEPT_MAX];
    ps_collect *collects; /* list */
    size_t saves;         /* that the helper has to do or is at; release waits for them */
    atomic_bool stop_saving;

    /* What is being released: shown until it is done. */
    bool is_releasing;
    ps_agent shown;
    size_t waiting_count;
    ps_waiting waiting[PS_NODE_CALLS_MAX];

    /* Objects that outlive their part: links closing, collects saving and hashing, tables
     * loading, Ready being cancelled. The node is freed when there are none. */
    size_t alive;
    bool is_stopping; /* no new jobs */
    bool is_closing;  /* nothing at all any more */
    ps_timer grace;
    ps_event server_down;
    ps_event *stopped;
};

/* --- node.c ---------------------------------------------------------------- */

/* CanCommit was granted: folder, log, link. On failure nothing is left. */
PS_MUST_USE ps_status ps_node_begin_attempt(ps_node *node, const char *job_id, uint32_t attempt,
                                            const char *coordinator);
/* The agent said so. Ends at once or later in ps_node_released. */
void ps_node_release(ps_node *node, const char *why);
/* The last of node->saves is over. */
void ps_node_saved(ps_node *node);
/* Carries out what the agent said. */
void ps_node_act(ps_node *node, ps_agent_action action, const char *why);
/* The agent may have changed: log, links, timer, faults. */
void ps_node_changed(ps_node *node);
/* The seal is verified: takes the session and prepares the role. */
PS_MUST_USE ps_status ps_node_take_session(ps_node *node, ps_session *session, int64_t wait_us);
void ps_session_destroy(ps_session *session, ps_datasets *datasets); /* NULL is allowed */

/* The coordinator was heard of. */
void ps_node_heard(ps_node *node);

/* What the world shall see: the agent, or what is being released. */
const ps_agent *ps_node_shown(const ps_node *node);

/* --- node_life.c ----------------------------------------------------------- */

/* Idle and stopping: down with everything. */
void ps_node_shut(ps_node *node);
/* One of those counted in `alive` has ended. May free the node. */
void ps_node_gone(ps_node *node);

/* --- node_service.c -------------------------------------------------------- */

extern const ps_method ps_node_methods[];
extern const size_t ps_node_method_count;

void ps_node_answer_waiting(ps_node *node);

/* `st`, the agent's answer about an attempt, as an error: STALE_ATTEMPT,
 * NOT_HELD, WRONG_PHASE, and who holds the node. */
void ps_node_fence_error(const ps_node *node, const char *job_id, uint32_t attempt, ps_status st,
                         ps_error *error);

/* Fills `out` from the node; strings are the node's. */
void ps_node_describe(const ps_node *node, Psgd__V1__Node *out);

bool ps_job_id_is_good(const char *job_id);

/* --- barrier.c ------------------------------------------------------------- */

/* Time for READY: the coordinator may wait ready_ms for the first node and as
 * long again for the last. */
int64_t ps_node_ready_us(const ps_node *node);
void ps_ready_begin(ps_node *node);
void ps_ready_cancel(ps_ready *ready);

/* --- link.c ---------------------------------------------------------------- */

ps_link *ps_link_open(ps_node *node, const char *address);
void ps_link_close(ps_link *link); /* NULL is allowed */
void ps_link_hurry(ps_link *link); /* a heartbeat now */
ps_channel *ps_link_channel(const ps_link *link);
const char *ps_link_address(const ps_link *link);

/* --- precommit.c ----------------------------------------------------------- */

void ps_precommit_handle(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call);
/* The attempt is over: the stream ends with ABORTED. */
void ps_precommit_abort(ps_precommit *precommit, const char *why);

/* --- collect.c ------------------------------------------------------------- */

void ps_collect_handle(void *service, const ProtobufCMessage *request, ps_payload *payload,
                       ps_call *call);
/* The attempt is over: all its streams end with ABORTED. */
void ps_collect_abort_all(ps_node *node);

#endif
