/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - what a worker and a parameter server have in common.
 *
 * A node serves NodeService and keeps itself registered with its coordinator. It sends progress and
 * its log of the job by heartbeat, receives the packages of PreCommit, waits at the barrier, and
 * answers Collect with its files. The role, a const table of hooks, says what it does with a job.
 * All functions are for the loop's thread.
 */
#ifndef PS_COMMON_NODE_NODE_H
#define PS_COMMON_NODE_NODE_H

#include "common/base/buf.h"
#include "common/base/snapshot.h"
#include "common/node/fault.h"
#include "common/node/session.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/trace/trace_file.h"

#include "psgd/v1/coordinator.pb-c.h"
#include "psgd/v1/node.pb-c.h"

#include <stdatomic.h>

typedef struct ps_node ps_node;

/* Most files of an attempt on a node, with its log. A worker has four for each of up to 256 ranks,
 * a server one for each embedding. */
enum { PS_NODE_FILES_MAX = 4 * 256 + 32 };
_Static_assert((int)PS_NODE_FILES_MAX > (int)PS_MODEL_LAYERS_MAX + 1, "one for each embedding");

/* What a node keeps of its log in memory, and gives in an answer of GetLog. */
enum { PS_NODE_LOG_KEPT = 1 << 20, PS_NODE_LOG_MAX = 256 << 10, PS_NODE_LOG_DEFAULT = 64 << 10 };

/* Reason of a CanCommit, PreCommit or Collect that failed because the node's disk is full. The
 * coordinator tries again: before training with another node, if there is one. */
#define PS_NODE_NO_ROOM "NO_ROOM"

/* What a role does. The loop's thread calls all hooks but `save`. */
typedef struct ps_role_hooks {
    Psgd__V1__NodeRole role;
    const char *service; /* "psgd-worker" */
    /* Prepares for a complete session: does what can fail, such as taking memory. Opens no
     * streams. */
    PS_MUST_USE ps_status (*prepare)(void *state, ps_session *session);
    /* Begins after the barrier. The role calls ps_node_finished once at the end. */
    void (*run)(void *state);
    /* Drops everything of the session. May be called at any time after a successful prepare. The
     * role calls ps_node_released at once or later, within a bounded time. */
    void (*release)(void *state);
    /* (optional) Names the files for Collect by ps_node_keep or ps_node_keep_bytes. Called for each
     * Collect, also while the role runs. If it fails, the call fails with INTERNAL, and the
     * coordinator fails the job. Without this hook a running role is not collected from. */
    PS_MUST_USE ps_status (*collect)(void *state);
    /* (optional) Writes files that `collect` named and that take time. A task calls it after each
     * successful collect; from then on nobody may change what it reads. When `stop` is set, it must
     * fail soon, because the release waits for it. RESOURCE_EXHAUSTED: the disk is full, and it is
     * called again; any other failure counts as one of collect. */
    PS_MUST_USE ps_status (*save)(void *state, const atomic_bool *stop);
    /* (optional) Says that the job goes on without this worker. May be called repeatedly. */
    void (*lose)(void *state, uint32_t worker);
    /* (optional) Lends the ranks of workers whose contributions to the oldest clock that is not
     * complete are missing, and writes that clock, for heartbeats. Returns their number. Called
     * while there is a session. The list stays valid until the next call. */
    size_t (*missing)(void *state, uint32_t **ranks, uint64_t *clock);
    /* (optional, both or none) Hold the workers of the session before the next step that they have
     * not begun, and say after how many exchanges they end; their progress says held_at. Called
     * while there is a session, maybe repeatedly. */
    void (*hold)(void *state);
    void (*end_at)(void *state, uint64_t clock);
    /* (optional) Lends a list of messages, one for each rank, for heartbeats and GetStatus. Returns
     * their number. Called while there is a session. The list stays valid until the next call. */
    size_t (*progress)(void *state, Psgd__V1__WorkerProgress ***list);
    /* (optional) Acts on the session's sparse tables when all contributions before `clock` are in.
     * Called while the role runs. Fails with FAILED_PRECONDITION if that is over, or another call
     * is due. */
    PS_MUST_USE ps_status (*tables)(void *state, Psgd__V1__TablesAction action, uint64_t clock);
    /* (optional) Takes a checkpoint at the beginning of `clock`, in place of one that was asked for
     * and has not been taken; 0: of none. Rows that have not changed since the checkpoint at `base`
     * (0: none) may be left out. If it `stays`, a worker does not begin that clock until
     * the next call; a server takes it now, as all workers have. The role gives its files by
     * ps_node_checkpoint_add and then calls ps_node_checkpoint_end, or ps_node_checkpoint_fail.
     * Called while there is a session, also before `run`. */
    void (*cut)(void *state, uint64_t clock, uint64_t base, bool stays);
    /* (optional, with cut) Does the same at once, as the state was when `clock` began, because the
     * job has lost a process; `of_copies`: with the files of the server of which this one has
     * copies. */
    void (*rescue)(void *state, uint64_t clock, bool of_copies);
    /* (optional) Writes what is kept of the contributions of a rank to the slices of the servers
     * for which is_lost (server_count) is true (common/wire/kept_pushes.h): a file in memory, which
     * the caller drops. `at` is the place of the rank in the session. Called while the role runs,
     * and when it has finished. */
    PS_MUST_USE ps_status (*kept)(void *state, uint32_t at, const bool *is_lost, ps_snapshot *out);
    /* (optional) Has all ranks stand still where they are; those that have ended do. UNAVAILABLE:
     * not all of them do yet; call it again. FAILED_PRECONDITION: a rank has failed. */
    PS_MUST_USE ps_status (*park)(void *state);
    /* (with park) Writes the state of a rank that stands still: a file in memory, which the caller
     * owns. */
    PS_MUST_USE ps_status (*parked)(void *state, uint32_t at, ps_snapshot *out);
    /* (optional, with kept) Drops what is kept of the clocks before `clock`: a checkpoint of it is
     * stored. Called while there is a session. */
    void (*forget)(void *state, uint64_t clock);
    /* (optional) Lends the rings of the session's threads for a timeline: a list, which the caller
     * frees. Returns their number. Called while there is a session. */
    size_t (*tracks)(void *state, ps_trace_track **list);
    /* (optional) Fills counters for GetStatus. Called while there is a session. Lists in it stay
     * valid until the next call. */
    void (*counters)(void *state, Psgd__V1__ServerCounters *counters);
} ps_role_hooks;

typedef struct ps_node_conf {
    const char *listen;      /* host:port, port 0 allowed */
    const char *advertise;   /* host[:port]; NULL: the bound address */
    const char *ops;         /* host:port of /metrics (common/ops/ops.h); NULL: none */
    const char *coordinator; /* host:port, or several with commas between */
    const char *node_id;     /* NULL: that of data_dir/node-id, created at the first start */
    const char *tls_dir;     /* where its certificate is renewed; NULL: plaintext */
    const char *data_dir;
    const char *data_path;     /* where data sets lie already; NULL: none */
    uint64_t data_cache_bytes; /* bound of the sets that were sent; 0: none is kept after its job */
    uint64_t min_free_bytes;   /* of its disk: with less it is given no job; 0: any will do */
    uint32_t threads;          /* of a parameter server; 0: it says nothing of threads */
    const char *loop; /* of a worker: title of the jobs that a program computes which it links to;
                       * NULL: it computes psgd's own models */
    int loop_fd;      /* with loop: the socket to that program */
    bool is_sockets_only; /* payloads of push and pull streams do not go through shared memory */
    ps_faults faults;     /* for tests; all 0: none */
} ps_node_conf;           /* borrowed until ps_node_start returns */

/* Starts a node: binds its address, prints "psgd-worker VERSION listening on HOST:PORT" to stdout
 * (flushed) and keeps itself registered. `extra` are further services, such as the parameter
 * server's; they are copied. Removes what an earlier process left unfinished in data_dir. Fails
 * with UNAVAILABLE if the address cannot be bound. */
PS_MUST_USE ps_status ps_node_start(ps_loop *loop, const ps_node_conf *conf,
                                    const ps_role_hooks *hooks, void *state,
                                    const ps_service *extra, size_t extra_count, ps_node **out);

uint64_t ps_node_incarnation(const ps_node *node);
/* Returns the session, or NULL. */
const ps_session *ps_node_session(const ps_node *node);
ps_phase ps_node_phase(const ps_node *node);

/* Returns the host:port by which others reach the node. */
const char *ps_node_address(const ps_node *node);

/* Says that the role's work has ended. Its files must be closed: Collect may follow. */
void ps_node_finished(ps_node *node, const ps_status *result);

/* The same for a failure because a loss, gradient or weight is not finite. */
void ps_node_diverged(ps_node *node, const ps_status *why);
void ps_node_released(ps_node *node);

/* Adds a file of session->folder to those of Collect. The name must be safe (files.h). */
void ps_node_keep(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind);

/* Does the same, but a file that is not there when it is opened is left out. */
void ps_node_keep_if_there(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind);

/* Adds a file whose content is `bytes`; takes over the reference. Replaces bytes of the same name.
 */
void ps_node_keep_bytes(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind,
                        ps_buf *bytes);

/* Adds a file to the checkpoint at `clock`, which may still be being written; takes it over. */
void ps_node_checkpoint_add(ps_node *node, uint64_t clock, const char *name, ps_snapshot content);

/* Gives the bytes that files of the checkpoint at `clock` have in common, so that they are in
 * memory once; once a checkpoint. Then adds such a file: `content`, which lacks them at offset
 * `at`. Take over what they are given, as ps_node_checkpoint_add. */
void ps_node_checkpoint_add_common(ps_node *node, uint64_t clock, ps_snapshot content);
void ps_node_checkpoint_add_spliced(ps_node *node, uint64_t clock, const char *name,
                                    ps_snapshot content, uint64_t at);

/* Says that the checkpoint at `clock` has all its files, or why it cannot be had. */
void ps_node_checkpoint_end(ps_node *node, uint64_t clock);
void ps_node_checkpoint_fail(ps_node *node, uint64_t clock, const ps_status *why);

/* Sends a heartbeat now, because metrics or phase have changed. */
void ps_node_hurry(ps_node *node);

/* Calls TakePartition of the attempt's coordinator; who the node is, is filled in. */
ps_unary *ps_node_take_partition(ps_node *node, Psgd__V1__TakePartitionRequest *request,
                                 int64_t timeout_us, ps_reply_fn *on_reply, void *arg);

/* Stops the node, as on SIGTERM. Refuses new jobs. A running job may go on for at most grace_us,
 * until its files are collected; then the node tells its coordinator and ends the job. If the job's
 * specification has `checkpoint`, the node asks the coordinator for one first: it ends the job when
 * that is stored, at most after the longer of checkpoint_us and grace_us; grace_us alone holds if
 * there can be none. Fires `done`
 * when everything has ended and the node is freed. Before that the node tells the coordinator that
 * it leaves; one that cannot be reached within a second notices by the lease. */
void ps_node_stop(ps_node *node, int64_t grace_us, int64_t checkpoint_us, ps_event *done);

#endif
