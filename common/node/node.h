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

/* Bytes of its log that a node keeps in memory, most bytes of an answer of GetLog, and bytes if a
 * request names no number. */
enum { PS_NODE_LOG_KEPT = 1 << 20, PS_NODE_LOG_MAX = 256 << 10, PS_NODE_LOG_DEFAULT = 64 << 10 };

/* Reason of a CanCommit, PreCommit or Collect that failed because the node's disk is full. The
 * coordinator tries again: before training with another node, if there is one. */
#define PS_NODE_NO_ROOM "NO_ROOM"

/* What a role does with a job. All hooks but `save` are called on the loop's thread. */
typedef struct ps_role_hooks {
    Psgd__V1__NodeRole role;
    const char *service; /* "psgd-worker" */
    /* Prepares for a session whose packages are complete: does what can fail, such as allocating
     * memory. Opens no streams. */
    PS_MUST_USE ps_status (*prepare)(void *state, ps_session *session);
    /* Begins to train or serve, after the barrier. At the end the role calls ps_node_finished or
     * ps_node_diverged once. */
    void (*run)(void *state);
    /* Drops everything of the session. May be called at any time after a successful `prepare`. The
     * role calls ps_node_released, at once or later but within a bounded time. */
    void (*release)(void *state);
    /* (optional) Names the files for Collect, by ps_node_keep or ps_node_keep_bytes. Called for
     * each Collect of the job's files, also while the role runs. If it fails, the call fails with
     * INTERNAL, and the coordinator fails the job. NULL: a running role has no files to collect. */
    PS_MUST_USE ps_status (*collect)(void *state);
    /* (optional) Writes files that `collect` named and that take time. A task calls it after each
     * successful collect; from then on nobody may change what it reads. When `stop` is set, it must
     * fail soon, because the release waits for it. RESOURCE_EXHAUSTED: the disk is full, and it is
     * called again; any other failure counts as one of collect. */
    PS_MUST_USE ps_status (*save)(void *state, const atomic_bool *stop);
    /* (optional) Notes that the job goes on without this worker. May be called repeatedly. */
    void (*lose)(void *state, uint32_t worker);
    /* (optional) For heartbeats: writes the oldest clock that is not complete to *clock, and sets
     * *ranks to the workers whose contributions to it are missing. Returns their number. Called
     * while there is a session. The list is the role's, valid until the next call. */
    size_t (*missing)(void *state, uint32_t **ranks, uint64_t *clock);
    /* (optional, both or none) For an early end of the job. `hold` holds the session's workers
     * before the next step that they have not begun; their progress reports where (held_at).
     * `end_at` says after how many exchanges they end. Called while there is a session, perhaps
     * repeatedly. */
    void (*hold)(void *state);
    void (*end_at)(void *state, uint64_t clock);
    /* (optional) Sets *list to messages, one for each rank, for heartbeats and GetStatus. Returns
     * their number. Called while there is a session. The list is the role's, valid until the next
     * call. */
    size_t (*progress)(void *state, Psgd__V1__WorkerProgress ***list);
    /* (optional) Acts on the session's sparse tables when all contributions to the clocks before
     * `clock` have arrived. Called while the role runs. Returns FAILED_PRECONDITION if they have
     * arrived already, or if another action is due. */
    PS_MUST_USE ps_status (*tables)(void *state, Psgd__V1__TablesAction action, uint64_t clock);
    /* (optional) Takes a checkpoint at the beginning of `clock`, instead of an earlier request that
     * was not met yet; 0: withdraws that request. Rows that have not changed since the checkpoint
     * at `base` (0: none) may be left out. `stays`: a worker does not begin the clock until the
     * next call; a server takes the checkpoint now, because all workers have reached the clock. The
     * role gives its files by ps_node_checkpoint_add and then calls ps_node_checkpoint_end, or
     * ps_node_checkpoint_fail. Called while there is a session, also before `run`. */
    void (*cut)(void *state, uint64_t clock, uint64_t base, bool stays);
    /* (optional, with cut) Takes a checkpoint at once, of the state when `clock` began, because the
     * job has lost a process. of_copies: with the files of the server whose state this server has a
     * copy of. */
    void (*rescue)(void *state, uint64_t clock, bool of_copies);
    /* (optional) Writes the contributions that a rank has kept (common/wire/kept_pushes.h) and that
     * belong to the servers whose is_lost (server_count) is true, to a file in memory, *out, which
     * the caller drops. `at` is the index of the rank in the session. Called while the role runs,
     * and when it has finished. */
    PS_MUST_USE ps_status (*kept)(void *state, uint32_t at, const bool *is_lost, ps_snapshot *out);
    /* (optional) Makes all ranks stand still where they are; ranks that have ended stand still
     * already. Returns UNAVAILABLE until all of them do: call it again. FAILED_PRECONDITION: a rank
     * has failed. */
    PS_MUST_USE ps_status (*park)(void *state);
    /* (with park) Writes the state of a rank that stands still to a file in memory, *out, which the
     * caller owns. `at` is the index of the rank in the session. */
    PS_MUST_USE ps_status (*parked)(void *state, uint32_t at, ps_snapshot *out);
    /* (optional, with kept) Drops the kept contributions to the clocks before `clock`, because a
     * checkpoint of it is stored. Called while there is a session. */
    void (*forget)(void *state, uint64_t clock);
    /* (optional) For a timeline: sets *list to the rings of the session's threads; the caller frees
     * the list. Returns their number. Called while there is a session. */
    size_t (*tracks)(void *state, ps_trace_track **list);
    /* (optional) Fills counters for GetStatus. Called while there is a session. Lists in *counters
     * are the role's, valid until the next call. */
    void (*counters)(void *state, Psgd__V1__ServerCounters *counters);
} ps_role_hooks;

/* What a node is made from. */
typedef struct ps_node_conf {
    const char *listen;      /* host:port, port 0 allowed */
    const char *advertise;   /* host[:port]; NULL: the bound address */
    const char *ops;         /* host:port of /metrics (common/ops/ops.h); NULL: none */
    const char *coordinator; /* host:port, or several with commas between */
    const char *node_id;     /* NULL: the id in data_dir/node-id, which the first start creates */
    /* folder in which the node's certificate is renewed; NULL: plaintext */
    const char *tls_dir;
    const char *data_dir;
    const char *data_path; /* folder of data sets that are on the host already; NULL: none */
    /* most bytes of the data sets that coordinators send; 0: none is kept after its job */
    uint64_t data_cache_bytes;
    /* if its disk has fewer free bytes, the node takes no job; 0: no bound */
    uint64_t min_free_bytes;
    uint32_t threads; /* threads of a parameter server; 0: not stated */
    /* of a worker for a program that computes models itself: the title of the jobs for that
     * program; NULL: the worker computes psgd's own models */
    const char *loop;
    int loop_fd;          /* if `loop` is set: the socket to the program */
    bool is_sockets_only; /* payloads of push and pull streams do not go through shared memory */
    ps_faults faults;     /* failures that tests cause; all 0: none */
} ps_node_conf;           /* borrowed until ps_node_start returns */

/* Starts a node: binds its address, prints "psgd-worker VERSION listening on HOST:PORT" to stdout
 * (flushed) and keeps the node registered. `extra` are further services, such as ParameterService;
 * the array is copied. Removes what an earlier process left unfinished in data_dir. Returns
 * UNAVAILABLE if the address cannot be bound. */
PS_MUST_USE ps_status ps_node_start(ps_loop *loop, const ps_node_conf *conf,
                                    const ps_role_hooks *hooks, void *state,
                                    const ps_service *extra, size_t extra_count, ps_node **out);

uint64_t ps_node_incarnation(const ps_node *node);
/* Returns the session, or NULL if no session is complete. */
const ps_session *ps_node_session(const ps_node *node);
ps_phase ps_node_phase(const ps_node *node);

/* Returns, in the hook `release` and until ps_node_released, whether the coordinator has said that
 * the job is not done by this attempt. */
bool ps_node_is_lost(const ps_node *node);

/* Returns the host:port by which others reach the node. */
const char *ps_node_address(const ps_node *node);

/* Called by the role when its work has ended with `result`. Its files must be closed, because
 * Collect may follow. */
void ps_node_finished(ps_node *node, const ps_status *result);

/* Does the same as ps_node_finished for a failure because a loss, gradient or weight is not
 * finite. */
void ps_node_diverged(ps_node *node, const ps_status *why);
void ps_node_released(ps_node *node);

/* Adds a file of session->folder to those of Collect. The name must be safe (files.h). */
void ps_node_keep(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind);

/* Adds a file to those of Collect as ps_node_keep does; if it does not exist when it is to be sent,
 * it is left out. */
void ps_node_keep_if_there(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind);

/* Adds a file whose content is `bytes` to those of Collect; takes the reference. Replaces the bytes
 * of an earlier file of the same name. */
void ps_node_keep_bytes(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind,
                        ps_buf *bytes);

/* Adds a file to the checkpoint at `clock`. The file may still be being written. Takes
 * `content`. */
void ps_node_checkpoint_add(ps_node *node, uint64_t clock, const char *name, ps_snapshot content);

/* Gives the bytes that several files of the checkpoint at `clock` have in common, so that they are
 * in memory once. Call it once for each checkpoint, before ps_node_checkpoint_add_spliced, which
 * adds such a file: `content` lacks the common bytes, which belong at its offset `at`. Both take
 * `content`. */
void ps_node_checkpoint_add_common(ps_node *node, uint64_t clock, ps_snapshot content);
void ps_node_checkpoint_add_spliced(ps_node *node, uint64_t clock, const char *name,
                                    ps_snapshot content, uint64_t at);

/* Ends the checkpoint at `clock`: it has all its files, or it failed because of `why`. */
void ps_node_checkpoint_end(ps_node *node, uint64_t clock);
void ps_node_checkpoint_fail(ps_node *node, uint64_t clock, const ps_status *why);

/* Sends a heartbeat now or right after the call in progress, because metrics or phase have
 * changed. */
void ps_node_hurry(ps_node *node);

/* Calls TakePartition at the attempt's coordinator. Fills in who the node is. */
ps_unary *ps_node_take_partition(ps_node *node, Psgd__V1__TakePartitionRequest *request,
                                 int64_t timeout_us, ps_reply_fn *on_reply, void *arg);

/* Stops the node, as on SIGTERM. New jobs are refused. A running job may go on for at most
 * grace_us, until its files are collected; then the node tells its coordinator and ends the job. If
 * the job's specification has `checkpoint`, the node first asks the coordinator for a checkpoint,
 * and ends the job when it is stored, but at most after the longer of checkpoint_us and grace_us;
 * if there can be no checkpoint, after grace_us. Before the end the node tells the coordinator that
 * it leaves; a coordinator that cannot be reached within a second notices by the lease. Fires
 * `done` when everything has ended and the node is freed. */
void ps_node_stop(ps_node *node, int64_t grace_us, int64_t checkpoint_us, ps_event *done);

#endif
