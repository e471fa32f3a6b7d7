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
 *   disk.c          the room on its disk
 *   trace_part.c    its part of the job's timeline
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
    ps_buf *bytes;    /* NULL: a file */
    bool is_optional; /* it is left out if it is not there */
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
    ps_snapshot content; /* written, once the checkpoint is complete */
    bool is_spliced;     /* it lacks checkpoint.common, which belongs at offset `at` */
    uint64_t at;
} ps_held_file;

/* A call that is answered when the node is idle, or when the files of its attempt are made:
 * CanCommit or Abort. */
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
    uint32_t threads; /* as in ps_node_conf */
    char *computes;   /* ps_node_conf.loop; "" if that is NULL; owned */
    ps_protection links;
    char *data_dir;
    char node_id[PS_NODE_ID_MAX];
    char address[PS_NODE_ADDRESS_MAX]; /* by which others reach it */
    uint64_t incarnation;
    ps_server *server;
    ps_ops *ops; /* NULL: none */
    ps_service *services;
    size_t service_count;
    struct {
        uint64_t min_free_bytes; /* below that the node takes no job */
        uint64_t free_bytes;     /* found by the last reading; UINT64_MAX: unknown */
        int64_t looked_us;
        bool is_looking;
    } disk;
    struct {
        ps_node_sample sample;   /* the last reading */
        Psgd__V1__NodeLoad last; /* what it found; without processors: nothing yet */
    } load;
    ps_tasks *tasks;     /* one thread, tasks in order: data sets, what roles save, Collect */
    ps_tasks *log_tasks; /* one thread, tasks in order: log and folder; none takes long */
    ps_datasets *datasets;

    ps_agent agent;
    ps_timer tick;      /* at agent.deadline_us */
    ps_phase announced; /* the phase that log and links were told last */

    ps_renewal *renewal; /* NULL: plaintext */
    ps_link *home;
    ps_link *link; /* to the attempt's coordinator; may be `home`; NULL: no attempt */

    /* The attempt, from RESERVED to the end of its release. */
    char folder[512];
    ps_beginning *beginning; /* makes folder and log; NULL: not running */
    ps_joblog *log;
    uint64_t log_shipped; /* bytes of the log that the coordinator has */
    ps_precommit *precommit;
    ps_ready *ready; /* NULL: not at the barrier */
    ps_session *session;
    size_t kept_count;
    ps_kept kept[PS_NODE_KEPT_MAX];
    /* The checkpoint that is being taken, or waits to be collected. */
    struct {
        uint64_t clock;      /* clock of the checkpoint; 0: none is taken or waits */
        uint64_t missed;     /* clock of the last checkpoint that could not be taken; 0: none */
        uint64_t rescued;    /* clock for which ps_checkpoint_rescue was called last; 0: none */
        bool is_of_copies;   /* of_copies of that call */
        bool stays;          /* the session does not go on after it */
        bool has_all;        /* the role has given all files */
        bool is_complete;    /* it waits to be collected */
        uint32_t pending;    /* files that are being written */
        uint32_t count;      /* files so far, of which */
        ps_held_file *files; /* (PS_NODE_CHECKPOINT_FILES) */
        bool has_common;
        ps_snapshot common; /* with has_common: bytes of several files */
    } checkpoint;
    /* The part of the timeline: that of the job from the first collect on, or one that is asked
     * for while the job trains. */
    struct {
        ps_trace_track *tracks; /* (count); NULL: none */
        size_t count;
        ps_trace_alignment alignment;
        bool is_written;    /* the file was written, or cannot be; used by tasks that save */
        uint64_t from_step; /* first step of the timeline that was asked for last; 0: none was */
        bool is_being_read; /* a task reads the rings */
    } trace;
    uint64_t cut_number;  /* grows when files are freed: one still being written is dropped */
    ps_tasks *cut_tasks;  /* one thread, which waits for the files of checkpoints */
    ps_collect *collects; /* list */
    /* number of the role's saves that are queued or running; release waits for them */
    size_t saves;
    atomic_bool stop_saving;

    /* The attempt that is being released: GetStatus shows it until the end. */
    bool is_lost; /* the job is not done by the attempt that is being released */
    bool is_releasing;
    ps_agent shown;
    size_t waiting_count;
    ps_waiting waiting[PS_NODE_CALLS_MAX];

    /* Objects that outlive their part: links closing, collects saving and hashing, tables
     * loading, Ready being cancelled. The node is freed when there are none. */
    size_t alive;
    bool is_stopping;      /* refuses new jobs */
    bool wants_checkpoint; /* before it stops */
    int64_t grace_end_us;  /* monotonic; when a job without a checkpoint ends */
    bool is_closing;       /* ends everything */
    ps_timer grace;
    ps_event server_down;
    ps_event *stopped;
};

/* --- renewal.c -------------------------------------------------------------- */

/* Keeps the certificate in the folder `dir` valid: asks the coordinator for another after two
 * thirds of its life. `dir` is copied. */
ps_renewal *ps_renewal_start(ps_node *node, const char *dir);

/* Stops asking for certificates. Frees the renewal when its task and its call to the coordinator
 * have ended. NULL is allowed. */
void ps_renewal_stop(ps_renewal *renewal);

/* --- node.c ---------------------------------------------------------------- */

/* Releases the attempt after the agent's RELEASE. Ends later in ps_node_become_idle. */
void ps_node_release(ps_node *node, const char *why);

/* Continues a release, if there is one and it waits for no task of the attempt any more. */
void ps_node_go_on_releasing(ps_node *node);

/* Ends a release, whose files are removed. */
void ps_node_become_idle(ps_node *node);

/* Carries out an action of the agent. */
void ps_node_act(ps_node *node, ps_agent_action action, const char *why);

/* Releases the attempt that the node holds, if it is this one or an older one of the job. is_lost:
 * the job is not done by it. */
void ps_node_abort(ps_node *node, const char *job_id, uint32_t attempt, bool is_lost,
                   const char *why);

/* Updates log, links, timer and faults after a possible change of the agent. */
void ps_node_changed(ps_node *node);

/* Takes over the session after a good seal and prepares the role. */
PS_MUST_USE ps_status ps_node_take_session(ps_node *node, ps_session *session, int64_t wait_us);

/* Frees a session and gives its data set back. NULL is allowed. */
void ps_session_destroy(ps_session *session, ps_datasets *datasets);

/* Notes that the coordinator was heard from. */
void ps_node_heard(ps_node *node);

/* Returns the agent that others are shown: while a release runs, that of the released attempt. */
const ps_agent *ps_node_shown(const ps_node *node);

/* --- attempt_files.c -------------------------------------------------------- */

/* Starts to make folder and log of the attempt that the agent has reserved. Then announces the
 * phase and answers the calls that wait, or gives the attempt up and fails them. */
void ps_attempt_begin(ps_node *node, const char *coordinator);

/* Ends the log and starts to remove the folder. Ends in ps_node_become_idle. */
void ps_attempt_remove(ps_node *node);

/* --- held_checkpoint.c ------------------------------------------------------------ */

/* Asks the role for the first checkpoint of a job that has them by steps. When it is prepared:
 * other nodes may begin to run before this one. */
void ps_checkpoint_begin(ps_node *node);

/* Does what an answer to a heartbeat says about checkpoints. */
void ps_checkpoint_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply);

/* Takes the checkpoint at `clock` at once, because the job has lost a process: the node's own, or
 * of the server of which it has copies. OK: it is there. UNAVAILABLE: it is being taken; call
 * again. FAILED_PRECONDITION: it cannot be had. */
PS_MUST_USE ps_status ps_checkpoint_rescue(ps_node *node, uint64_t clock, bool of_copies);

/* Tells the coordinator which checkpoint is there. */
void ps_checkpoint_tell(const ps_node *node, Psgd__V1__HeartbeatRequest *request);

/* Returns whether the job that runs is to have checkpoints. */
bool ps_checkpoint_is_wanted(const ps_node *node);

/* Ends the wait for the last checkpoint before the node stops: it is stored at `step`; 0: there is
 * none. Does nothing if the node does not wait. In node_life.c. */
void ps_node_last_checkpoint(ps_node *node, uint64_t step);

/* Forgets the checkpoint, because the attempt is over. The role is told nothing. */
void ps_checkpoint_drop(ps_node *node);

/* --- disk.c ---------------------------------------------------------------- */

/* Looks for the first time. */
void ps_node_disk_init(ps_node *node, uint64_t min_free_bytes);

/* Fills *disk with the result of the last reading of the disk. Starts a new reading in the
 * background if that is old. */
void ps_node_disk_tell(ps_node *node, Psgd__V1__DiskInfo *disk);

/* Returns whether a failure is one of a full disk. Asks the disk. */
bool ps_node_disk_is_full(const ps_node *node, const ps_status *st);

/* --- trace_part.c ------------------------------------------------------------ */

/* Adds the part of the job's timeline, if it has one, to the files of Collect. Only the first call
 * of a session counts. */
void ps_node_keep_trace(ps_node *node);

/* Writes that part, once, for a task that saves. A failure is logged. */
void ps_node_write_trace(ps_node *node);

/* Has the rings record the steps that the coordinator names. */
void ps_trace_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply);

/* Begins to read the rings for the timeline from `from_step` on, which was asked for. Then a task
 * calls ps_trace_write_live, and after it ps_trace_end_live is called. FAILED_PRECONDITION: another
 * one was asked for, or none; UNAVAILABLE: another task reads them. */
PS_MUST_USE ps_status ps_trace_begin_live(ps_node *node, uint64_t from_step);
/* Writes the part into a file of the folder without a name; *fd is open for reading. */
PS_MUST_USE ps_status ps_trace_write_live(ps_node *node, int *fd);
void ps_trace_end_live(ps_node *node);

/* Forgets the part, because the attempt is over. */
void ps_node_drop_trace(ps_node *node);

/* --- load.c ---------------------------------------------------------------- */

/* Looks for the first time. */
void ps_node_load_init(ps_node *node);

/* Fills *load with the result of the last reading, after a new one if that is a second old. Returns
 * whether there is one with rates. */
bool ps_node_load_tell(ps_node *node, Psgd__V1__NodeLoad *load);

/* --- node_metrics.c -------------------------------------------------------- */

/* Starts to serve /metrics, /healthz and /readyz on an address, unless it is NULL or "". */
PS_MUST_USE ps_status ps_node_start_ops(ps_node *node, const char *listen);

/* --- node_life.c ----------------------------------------------------------- */

/* Ends everything of a node that is idle and stopping. */
void ps_node_shut(ps_node *node);

/* Notes the end of an object that is counted in `alive`. May free the node. */
void ps_node_gone(ps_node *node);

/* --- node_service.c -------------------------------------------------------- */

extern const ps_method ps_node_methods[];
extern const size_t ps_node_method_count;

/* Answers the calls that wait. The node is idle, or the files of its attempt are made. */
void ps_node_answer_waiting(ps_node *node);

/* Fails the calls that wait: the files of the attempt cannot be made. */
void ps_node_fail_waiting(ps_node *node, ps_status st);

/* Makes *error of the agent's status `st` about an attempt. Reasons: STALE_ATTEMPT, NOT_HELD,
 * WRONG_PHASE; the text says who holds the node. */
void ps_node_fence_error(const ps_node *node, const char *job_id, uint32_t attempt, ps_status st,
                         ps_error *error);

/* Fills `out` with the node's description; strings are the node's. */
void ps_node_describe(const ps_node *node, Psgd__V1__Node *out);

bool ps_job_id_is_good(const char *job_id);

/* --- barrier.c ------------------------------------------------------------- */

/* Returns the most time in READY: the coordinator waits ready_ms for the first node and as long
 * again for the last. */
int64_t ps_node_ready_us(const ps_node *node);

/* Calls Ready, again and again, until the barrier opens or the time is over. */
void ps_ready_begin(ps_node *node);

/* Makes the call of Ready again, because another coordinator may lead now. */
void ps_ready_repeat(ps_ready *ready);

/* Ends the calls of Ready. */
void ps_ready_cancel(ps_ready *ready);

/* --- link.c ---------------------------------------------------------------- */

/* Opens a link: registers with the coordinator and sends heartbeats until it is closed. Of several
 * addresses, "host:port,host:port", the one that leads is followed. */
ps_link *ps_link_open(ps_node *node, const char *addresses);

/* Closes and later frees the link. NULL is allowed. */
void ps_link_close(ps_link *link);
/* Tells the coordinator that the node leaves, then closes the link; within a second. */
void ps_link_leave(ps_link *link);

/* Sends a heartbeat now. */
void ps_link_hurry(ps_link *link);
ps_channel *ps_link_channel(const ps_link *link);
/* Returns what a time of this node's clock is by the coordinator's. */
ps_trace_alignment ps_link_align(const ps_link *link, int64_t at_ns);
/* Returns whether the coordinator has registered the node and still knows it. */
bool ps_link_is_registered(const ps_link *link);

/* Returns the address of the coordinator that the link follows. The link must be open. */
const char *ps_link_address(const ps_link *link);
/* Returns whether the link is with a coordinator at this address, or follows it when it leads. */
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
