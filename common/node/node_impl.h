/* SPDX-License-Identifier: Apache-2.0 */
/* node_impl.h - the parts of a node. For common/node only.
 *
 *   node.c          phases, release
 *   attempt_files.c the attempt's folder and log, made and removed by tasks
 *   barrier.c       Ready
 *   node_life.c     start and stop
 *   node_service.c  NodeService but for its streams
 *   renewal.c       asks for another certificate before the node's own ends
 *   link.c          registration and heartbeat with one coordinator
 *   precommit*.c    the packages of PreCommit, in order
 *   packages.c      checks each package against the node's own plan
 *   collect.c       the files of an attempt, in chunks
 *   held_checkpoint.c the checkpoint that the node holds
 *   disk.c          the free space of the node's disk
 *   trace_part.c    the node's part of the job's timeline
 *   load.c          what the process and its host use
 *   node_metrics.c  what /metrics and /readyz say
 *
 * An attempt begins with CanCommit (ps_attempt_begin) and ends with ps_node_release. Its
 * session exists from the last package of PreCommit, the seal, on. Everything is for the loop's
 * thread.
 */
#ifndef PS_COMMON_NODE_NODE_IMPL_H
#define PS_COMMON_NODE_NODE_IMPL_H

#include "common/base/files.h"
#include "common/base/snapshot.h"
#include "common/node/datasets.h"
#include "common/node/joblog.h"
#include "common/node/node.h"
#include "common/ops/ops.h"
#include "common/rpc/protect.h"
#include "common/trace/trace_file.h"

enum {
    PS_NODE_ID_MAX = 80,
    PS_NODE_CALLS_MAX = 64, /* calls that wait for the end of a release; more are refused */
    PS_NODE_KEPT_MAX = PS_NODE_FILES_MAX - 1, /* files of an attempt, without its log */
    /* most files of a checkpoint: one of each rank, one of each thread, and the weights */
    PS_NODE_CHECKPOINT_FILES = 256 + PS_THREADS_MAX + 1
};

typedef struct ps_link ps_link;
typedef struct ps_renewal ps_renewal;
typedef struct ps_precommit ps_precommit;
typedef struct ps_collect ps_collect;
typedef struct ps_beginning ps_beginning;

/* A file for Collect: in the attempt's folder, or in memory. */
typedef struct ps_kept {
    char name[PS_NAME_MAX + 1];
    Psgd__V1__ArtifactKind kind;
    ps_buf *bytes;    /* content; NULL: the file `name` in the attempt's folder has it */
    bool is_optional; /* Collect leaves the file out if it does not exist */
} ps_kept;

/* What a process and its host have used until a time. */
typedef struct ps_node_sample {
    int64_t at_us;
    double cpu_s;            /* processor time of the process in seconds */
    uint64_t received, sent; /* bytes of all interfaces of the host */
} ps_node_sample;

/* A file of a checkpoint. */
typedef struct ps_held_file {
    char name[PS_NAME_MAX + 1];
    ps_snapshot content; /* written completely once checkpoint.is_complete */
    /* the file is `content` with the bytes of checkpoint.common inserted at offset `at` */
    bool is_spliced;
    uint64_t at;
} ps_held_file;

/* A call that waits: an Abort until the node is idle, a CanCommit until then or until the files of
 * its own attempt are made. */
typedef struct ps_waiting {
    ps_call *call;
    const Psgd__V1__CanCommitRequest *can_commit; /* NULL: Abort */
} ps_waiting;

typedef struct ps_ready ps_ready;

struct ps_node {
    ps_loop *loop;
    const ps_role_hooks *hooks;
    void *state; /* first argument of the hooks */
    ps_faults faults;
    uint32_t threads; /* as in ps_node_conf */
    char *computes;   /* ps_node_conf.loop; "" if that is NULL; owned */
    ps_protection links;
    char *data_dir;
    char node_id[PS_NODE_ID_MAX];
    char address[PS_NODE_ADDRESS_MAX]; /* host:port by which others reach the node */
    uint64_t incarnation;
    ps_server *server;
    ps_ops *ops; /* NULL: none */
    ps_service *services;
    size_t service_count;
    struct {
        uint64_t min_free_bytes; /* below that the node takes no job */
        uint64_t free_bytes;     /* free space when it was last read; UINT64_MAX: unknown */
        int64_t looked_us;
        bool is_looking;
    } disk;
    struct {
        ps_node_sample sample; /* the last reading of load.c */
        /* load between the last two readings; processors 0: there were not two yet */
        Psgd__V1__NodeLoad last;
    } load;
    ps_tasks *tasks;     /* one thread, tasks in order: data sets, what roles save, Collect */
    ps_tasks *log_tasks; /* one thread, tasks in order: log and folder; none takes long */
    ps_datasets *datasets;

    ps_agent agent;
    ps_timer tick; /* fires at agent.deadline_us */
    /* the last phase of ps_node_shown that was logged; a heartbeat was then asked for */
    ps_phase announced;

    ps_renewal *renewal; /* NULL: plaintext */
    ps_link *home;
    /* link to the coordinator of the attempt; may be `home`; NULL: there is no attempt, or its
     * files are still being made */
    ps_link *link;

    /* The attempt, from RESERVED to the end of its release. */
    char folder[512];
    ps_beginning *beginning; /* the task that makes folder and log; NULL: it does not run */
    ps_joblog *log;
    uint64_t log_shipped; /* bytes of the log that the coordinator has stored */
    ps_precommit *precommit;
    ps_ready *ready; /* the calls of Ready; NULL: the node is not at the barrier */
    ps_session *session;
    size_t kept_count;
    ps_kept kept[PS_NODE_KEPT_MAX];
    /* The checkpoint that is being taken, or waits to be collected. */
    struct {
        uint64_t clock;    /* clock of the checkpoint; 0: none is taken or waits */
        uint64_t missed;   /* clock of the last checkpoint that could not be taken; 0: none */
        uint64_t rescued;  /* clock for which ps_checkpoint_rescue was called last; 0: none */
        bool is_of_copies; /* of_copies of the last call of ps_checkpoint_rescue */
        /* workers stand still after the checkpoint until an answer of the coordinator lets them go
         * on */
        bool stays;
        bool has_all;        /* the role has given all files */
        bool is_complete;    /* all files are written: the checkpoint waits to be collected */
        uint32_t pending;    /* files that are being written */
        uint32_t count;      /* number of files that are written, in `files` */
        ps_held_file *files; /* (PS_NODE_CHECKPOINT_FILES) */
        bool has_common;
        ps_snapshot common; /* with has_common: the bytes that several files have in common */
    } checkpoint;
    /* The node's part of a timeline: of the one that the job asks for (spec.trace), from the first
     * Collect on; or of one that a user asks for while the job trains. */
    struct {
        /* (count): the rings of the session's threads; NULL: not listed yet */
        ps_trace_track *tracks;
        size_t count;
        ps_trace_alignment alignment;
        /* ps_node_write_trace has written the file, or has failed; used only by tasks that save */
        bool is_written;
        /* first step of the timeline that the coordinator asked for last; 0: it asks for none */
        uint64_t from_step;
        bool is_being_read; /* a task reads the rings */
    } trace;
    /* Number of times that files of a checkpoint were dropped. A file that was begun at a lower
     * number is dropped when it is written. */
    uint64_t cut_number;
    ps_tasks *cut_tasks;  /* one thread, which waits until files of checkpoints are written */
    ps_collect *collects; /* list of the running calls of Collect */
    /* number of calls of the role's hook `save` that are queued or running; a release waits for
     * them */
    size_t saves;
    atomic_bool stop_saving;

    /* The members down to `waiting` are about the attempt that is being released. */
    /* the coordinator has said that the job is not done by this attempt (ps_node_is_lost) */
    bool is_lost;
    bool is_releasing;
    ps_agent shown;
    size_t waiting_count;
    ps_waiting waiting[PS_NODE_CALLS_MAX];

    /* Number of objects and tasks that still point to the node, such as links, calls of Collect and
     * Ready, and running tasks. The node is freed only when it is 0. */
    size_t alive;
    bool is_stopping;      /* ps_node_stop was called: new jobs are refused */
    bool wants_checkpoint; /* the node asks the coordinator for a checkpoint before it stops */
    /* monotonic time at which a running job ends if there can be no checkpoint */
    int64_t grace_end_us;
    bool is_closing; /* ps_node_shut was called: the node ends everything */
    ps_timer grace;
    ps_event server_down;
    ps_event *stopped;
};

/* --- renewal.c -------------------------------------------------------------- */

/* Begins to keep the certificate in the folder `dir` valid: asks the coordinator for another one
 * when two thirds of the certificate's life are over. `dir` is copied. */
ps_renewal *ps_renewal_start(ps_node *node, const char *dir);

/* Stops asking for certificates. Frees the renewal when its task and its call to the coordinator
 * have ended. NULL is allowed. */
void ps_renewal_stop(ps_renewal *renewal);

/* --- node.c ---------------------------------------------------------------- */

/* Begins to release the attempt, after the agent has returned PS_AGENT_RELEASE. The release ends
 * later, with ps_node_become_idle. `why` is for the log and for streams that are ended. */
void ps_node_release(ps_node *node, const char *why);

/* Continues a release. Does nothing if there is none, or if it still waits for tasks that save or
 * make files. */
void ps_node_go_on_releasing(ps_node *node);

/* Ends a release after the attempt's files were removed: the node is idle again. */
void ps_node_become_idle(ps_node *node);

/* Carries out an action of the agent. */
void ps_node_act(ps_node *node, ps_agent_action action, const char *why);

/* Handles an abort of attempt number `attempt` of a job: releases the attempt that the node holds
 * if it is that one or an older one of the job. is_lost: the job is not done by the released
 * attempt (ps_node_is_lost). */
void ps_node_abort(ps_node *node, const char *job_id, uint32_t attempt, bool is_lost,
                   const char *why);

/* Call it after anything that may have changed the agent. Sets the timer; if the phase is a new
 * one, logs it, has heartbeats sent and carries out faults. */
void ps_node_changed(ps_node *node);

/* Takes the session when the seal was accepted, and has the role prepare for it. The node is then
 * PREPARED for at most wait_us. */
PS_MUST_USE ps_status ps_node_take_session(ps_node *node, ps_session *session, int64_t wait_us);

/* Frees a session and gives its data set back. NULL is allowed. */
void ps_session_destroy(ps_session *session, ps_datasets *datasets);

/* Notes that a message of the attempt's coordinator has arrived: in FINISHED and FAILED the node
 * keeps its files for an hour from now. */
void ps_node_heard(ps_node *node);

/* Returns the agent whose state others are told: while a release runs, its state before the
 * release. */
const ps_agent *ps_node_shown(const ps_node *node);

/* --- attempt_files.c -------------------------------------------------------- */

/* Starts a task that makes folder and log of the attempt that the agent has reserved. When it has
 * ended, the waiting calls of CanCommit are answered; if it has failed, the attempt is given up and
 * they fail. */
void ps_attempt_begin(ps_node *node, const char *coordinator);

/* Ends the log and starts a task that removes the folder; at its end ps_node_become_idle is
 * called. */
void ps_attempt_remove(ps_node *node);

/* --- held_checkpoint.c ------------------------------------------------------------ */

/* Asks the role for the first checkpoint of a job, if the job takes checkpoints at steps that every
 * node can compute. Called when the role is prepared, because other nodes may begin to run before
 * this one. */
void ps_checkpoint_begin(ps_node *node);

/* While the attempt runs, does what the coordinator's answer to a heartbeat says about
 * checkpoints. */
void ps_checkpoint_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply);

/* Takes the checkpoint at `clock` at once, because the job has lost a process. of_copies: with the
 * state of the server of which this one has copies. Returns OK if the checkpoint is complete;
 * UNAVAILABLE while it is being taken, then call again; FAILED_PRECONDITION if it cannot be
 * taken. */
PS_MUST_USE ps_status ps_checkpoint_rescue(ps_node *node, uint64_t clock, bool of_copies);

/* Writes into a heartbeat which checkpoint the node holds or could not take, and whether it wants
 * one. */
void ps_checkpoint_tell(const ps_node *node, Psgd__V1__HeartbeatRequest *request);

/* Returns whether a job runs that has checkpoints, or that can go on from one on other nodes after
 * the loss of this node. */
bool ps_checkpoint_is_wanted(const ps_node *node);

/* Ends the wait for the last checkpoint before the node stops: the coordinator has stored one at
 * `step`; 0: there will be none. Does nothing if the node does not wait. In node_life.c. */
void ps_node_last_checkpoint(ps_node *node, uint64_t step);

/* Forgets the checkpoint, because the attempt is over. The role is told nothing. */
void ps_checkpoint_drop(ps_node *node);

/* --- disk.c ---------------------------------------------------------------- */

/* Reads the free space for the first time; waits for the disk. With fewer than min_free_bytes free
 * the node takes no job; 0: no bound. */
void ps_node_disk_init(ps_node *node, uint64_t min_free_bytes);

/* Fills *disk with the result of the last reading of the disk. Starts a new reading in the
 * background if the last one is more than a second old. */
void ps_node_disk_tell(ps_node *node, Psgd__V1__DiskInfo *disk);

/* Returns whether the failure `st` is due to a full disk. Reads the free space anew; blocks. */
bool ps_node_disk_is_full(const ps_node *node, const ps_status *st);

/* --- trace_part.c ------------------------------------------------------------ */

/* Adds the node's part of the timeline to the files of Collect, if the job asks for a timeline
 * (spec.trace). Only the first call of a session does something. */
void ps_node_keep_trace(ps_node *node);

/* Writes the node's part of the timeline to the attempt's folder, if ps_node_keep_trace has added
 * it and no earlier call has written it. Failures are logged. On the thread of a task that
 * saves. */
void ps_node_write_trace(ps_node *node);

/* Has the rings record the steps that the coordinator's answer to a heartbeat names, for a timeline
 * that a user asks for while the job trains. */
void ps_trace_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply);

/* Begins to write the node's part of the timeline that was asked for with the first step
 * `from_step`. A task then calls ps_trace_write_live, and ps_trace_end_live is called when the task
 * has ended. Returns FAILED_PRECONDITION if another timeline or none was asked for, UNAVAILABLE
 * while another call writes one. */
PS_MUST_USE ps_status ps_trace_begin_live(ps_node *node, uint64_t from_step);
/* Writes the node's part of the timeline into a file that has no name any more; *fd is open for
 * reading, and the caller closes it. On a task's thread. */
PS_MUST_USE ps_status ps_trace_write_live(ps_node *node, int *fd);
void ps_trace_end_live(ps_node *node);

/* Forgets the node's part of a timeline, because the attempt is over. */
void ps_node_drop_trace(ps_node *node);

/* --- load.c ---------------------------------------------------------------- */

/* Reads for the first time what the process and its host have used. */
void ps_node_load_init(ps_node *node);

/* Fills *load with the load between the last two readings. Makes a new reading first if the last
 * one is a second old or older. Returns false if there were not two readings yet. */
bool ps_node_load_tell(ps_node *node, Psgd__V1__NodeLoad *load);

/* --- node_metrics.c -------------------------------------------------------- */

/* Starts to serve /metrics, /healthz and /readyz on an address, unless it is NULL or "". */
PS_MUST_USE ps_status ps_node_start_ops(ps_node *node, const char *listen);

/* --- node_life.c ----------------------------------------------------------- */

/* Ends the links and the server of a node that is idle and stopping; the node is freed when all has
 * ended. */
void ps_node_shut(ps_node *node);

/* Notes the end of an object that is counted in `alive`. May free the node. */
void ps_node_gone(ps_node *node);

/* --- node_service.c -------------------------------------------------------- */

extern const ps_method ps_node_methods[];
extern const size_t ps_node_method_count;

/* Answers the calls in node->waiting. Called when the node is idle, or when the files of its
 * attempt are made. */
void ps_node_answer_waiting(ps_node *node);

/* Fails the calls in node->waiting with `st`, because the files of the attempt cannot be made. */
void ps_node_fail_waiting(ps_node *node, ps_status st);

/* Makes *error from a failure `st` of the agent about an attempt. Its reason is STALE_ATTEMPT,
 * NOT_HELD or WRONG_PHASE; its metadata say which job holds the node. */
void ps_node_fence_error(const ps_node *node, const char *job_id, uint32_t attempt, ps_status st,
                         ps_error *error);

/* Fills `out` with the node's description; strings are the node's. */
void ps_node_describe(const ps_node *node, Psgd__V1__Node *out);

bool ps_job_id_is_good(const char *job_id);

/* --- barrier.c ------------------------------------------------------------- */

/* Returns the most microseconds that the node may be in READY: the coordinator waits up to ready_ms
 * for the first node to call Ready, and as long again for the last one. */
int64_t ps_node_ready_us(const ps_node *node);

/* Calls Ready at the attempt's coordinator until it answers: that the barrier has opened, or that
 * it has failed. Repeats the call while the coordinator cannot be reached, for at most
 * ps_node_ready_us. */
void ps_ready_begin(ps_node *node);

/* Makes the call of Ready again, because another coordinator may lead now. */
void ps_ready_repeat(ps_ready *ready);

/* Ends the calls of Ready. */
void ps_ready_cancel(ps_ready *ready);

/* --- link.c ---------------------------------------------------------------- */

/* Opens a link: registers the node with a coordinator and sends heartbeats until the link is
 * closed. Of several addresses, "host:port,host:port", follows the coordinator that leads. */
ps_link *ps_link_open(ps_node *node, const char *addresses);

/* Closes and later frees the link. NULL is allowed. */
void ps_link_close(ps_link *link);
/* Tells the coordinator that the node leaves, then closes the link. Does not block; takes at most a
 * second. */
void ps_link_leave(ps_link *link);

/* Sends a heartbeat now or right after the call in progress. Does nothing if the link is closed or
 * no coordinator has registered the node and answers. */
void ps_link_hurry(ps_link *link);
ps_channel *ps_link_channel(const ps_link *link);
/* Returns how this node's clock relates to the coordinator's at the time at_ns of this node's clock
 * (trace.h). */
ps_trace_alignment ps_link_align(const ps_link *link, int64_t at_ns);
/* Returns whether the coordinator has registered the node and still knows it. */
bool ps_link_is_registered(const ps_link *link);

/* Returns the address of the coordinator that the link follows. The link must be open. */
const char *ps_link_address(const ps_link *link);
/* Returns whether the coordinator at this address is in the link's list, or is the one that the
 * link follows now. */
bool ps_link_knows(const ps_link *link, const char *address);

/* --- precommit.c ----------------------------------------------------------- */

void ps_precommit_handle(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call);
/* Ends the stream with ABORTED, because the attempt is over. */
void ps_precommit_abort(ps_precommit *precommit, const char *why);

/* --- collect.c ------------------------------------------------------------- */

void ps_collect_handle(void *service, const ProtobufCMessage *request, ps_payload *payload,
                       ps_call *call);
/* Ends all streams of Collect with ABORTED, because the attempt is over. */
void ps_collect_abort_all(ps_node *node);

#endif
