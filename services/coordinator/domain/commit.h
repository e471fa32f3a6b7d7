/* SPDX-License-Identifier: Apache-2.0 */
/* commit.h - one attempt of a job, as a state machine.
 *
 * Pure: no I/O, no clock. The caller says what happened and when, then takes
 * the actions that follow with ps_commit_next until there are none:
 *
 *   CAN_COMMIT -> PRE_COMMIT -> DO_COMMIT -> RUNNING -> COLLECTING -> the end
 *
 * The end is an outcome (DONE, FAILED, CANCELLED, or QUEUED for another try)
 * with its reason, decided once, and then stages (ps_commit_stage). A node is
 * released only after the outcome is saved, and after the files that it gave are
 * stored: until then it keeps them. `state` stays what it was until the attempt is
 * over.
 *
 * What cannot be saved or stored for want of room is tried again, with growing
 * pauses, until it succeeds or the job is cancelled; `waits` says for what. All
 * other stages are bounded.
 *
 * Times are monotonic microseconds. A node is its index in `members`.
 */
#ifndef PS_COORDINATOR_COMMIT_H
#define PS_COORDINATOR_COMMIT_H

#include "common/base/status.h"
#include "services/coordinator/domain/waits.h"

#include "psgd/v1/coordinator.pb-c.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PS_COMMIT_NODE_ID_MAX = 80,
    PS_COMMIT_ADDRESS_MAX = 160,
    PS_COMMIT_VERSION_MAX = 32,
    PS_COMMIT_REASON_MAX = 40,
    PS_COMMIT_MESSAGE_MAX = 600,
    PS_COMMIT_WAITS_MAX = 600,
    PS_INTERRUPTED_MAX = 3 /* attempts in a row that may be interrupted before training */
};

typedef struct ps_commit_conf {
    int64_t find_us;       /* for the coordinator to find the data and model of the packages */
    int64_t can_commit_us; /* for nodes to answer CanCommit */
    int64_t make_us;       /* for the coordinator to make the packages */
    int64_t pre_commit_us; /* for nodes to take all packages; set again by ps_commit_packaged */
    int64_t ready_us;      /* from DoCommit to the first Ready, and again to the last Ready */
    int64_t lease_us;      /* silence after which a node is lost */
    int64_t late_us;       /* silence after which a node is shown as waited for */
    int64_t silent_us;     /* silence after which a node is to blame if others give up */
    int64_t collect_us;    /* to collect the files of all nodes */
    int64_t abort_us;      /* to release all; those who have not answered are left to their beats */
    bool survives_loss;    /* goes on as long as a worker and all servers are alive */
    bool nodes_are_named;  /* the user chose the nodes: a busy or silent one fails the job;
                            * false: the job goes back to the queue */
    bool fails_if_busy;    /* a busy node fails the job, named or not */
    bool may_repeat;       /* an interruption before training sends the job back to the queue */
    /* The loss of a worker, or of a server, sends the job back to the queue for another attempt;
     * false: it fails the job. */
    bool restarts_workers, restarts_servers;
    /* A loss of workers alone is followed by PS_COMMIT_RESCUE: the next attempt goes on from where
     * the servers are, or in a job without servers the workers that are left. */
    bool rescues;
    /* The server after each one, cyclically by rank, has copies of its state: so is the loss of
     * servers of which all copies are there. */
    bool has_copies;
    /* Workers have kept what the state of lost servers is computed of: so is the loss of servers of
     * which all workers are there. */
    bool has_kept;
    /* Ranks have state of their own: that holds only if all workers are there. */
    bool carries;
    bool rolls_back;  /* a divergence sends the job back to the queue, for half the rate */
    bool fails_alike; /* attempts have failed and got no further, without a lost node: another
                       * failure of that kind fails the job */
} ps_commit_conf;

/* Actions that the caller carries out. */
typedef enum ps_commit_action {
    PS_COMMIT_NOTHING,
    PS_COMMIT_ASK,     /* CanCommit */
    PS_COMMIT_PREPARE, /* PreCommit */
    PS_COMMIT_START,   /* DoCommit */
    PS_COMMIT_OPEN,    /* answer the node's Ready: go */
    PS_COMMIT_COLLECT, /* Collect */
    PS_COMMIT_SPARED,  /* the attempt goes on without the node: note what is in spared */
    PS_COMMIT_RELEASE, /* end what runs with the node, refuse its Ready, Abort */
    PS_COMMIT_CHANGED, /* `state` is another: publish it. Node 0 */
    PS_COMMIT_MAKE,    /* make the packages; answer ps_commit_packaged. Node 0 */
    PS_COMMIT_STORE,   /* write summary and manifest; answer ps_commit_stored. Node 0 */
    PS_COMMIT_RESCUE,  /* store the state that is left; answer ps_commit_rescued. Node 0 */
    PS_COMMIT_SAVE,    /* save the job as `stage` says; answer ps_commit_saved. Node 0 */
    PS_COMMIT_OVER     /* the last: `state` is final, or QUEUED, and saved. Node 0 */
} ps_commit_action;

typedef enum ps_member_step {
    PS_MEMBER_NEW,
    PS_MEMBER_ASKED,
    PS_MEMBER_RESERVED,
    PS_MEMBER_PREPARED,
    PS_MEMBER_WAITING, /* at the barrier */
    PS_MEMBER_RUNNING,
    PS_MEMBER_OVER /* finished or failed: has files */
} ps_member_step;

typedef enum ps_member_files {
    PS_FILES_NONE,
    PS_FILES_ASKED,
    PS_FILES_HELD, /* there is no room to write them; asked again later */
    PS_FILES_HERE,
    PS_FILES_LOST
} ps_member_files;

typedef struct ps_member {
    /* Set by the caller before ps_commit_begin. The node itself may tell id and incarnation later.
     */
    char id[PS_COMMIT_NODE_ID_MAX];
    char address[PS_COMMIT_ADDRESS_MAX];
    Psgd__V1__NodeRole role;
    uint32_t rank;        /* of a server; of a worker process: the first of its ranks */
    uint32_t rank_count;  /* number of ranks of the process, from `rank` on; 1 for a server */
    uint64_t incarnation; /* 0: not known yet */
    uint32_t threads;     /* number of threads that a server reports; 0: not known yet */
    char version[PS_COMMIT_VERSION_MAX]; /* of the node's program; "": not known yet */
    bool is_spared; /* the attempt goes on without it; set by the caller of ps_commit_adopt */

    /* Written by the machine. */
    ps_member_step step;
    ps_member_files files;
    bool is_lost;         /* the attempt no longer waits for it */
    bool is_gone;         /* its process has ended: it holds nothing, and will not answer */
    bool is_releasing;    /* Abort was sent, or is about to be */
    bool is_released;     /* Abort was answered or has failed */
    bool is_silent;       /* did not answer CanCommit */
    bool is_blamed;       /* reports that it failed because of another node; see blame_us */
    bool is_culprit;      /* holds up the nodes that are blamed */
    bool has_left;        /* it was told to stop, which ended the attempt */
    bool has_low_disk;    /* reports that its disk is nearly full */
    bool has_diverged;    /* fails because a number of the training is not finite */
    unsigned idle_beats;  /* heartbeats in a row without this attempt, while it should run */
    unsigned beats;       /* heartbeats since blame_us was set */
    unsigned open_beats;  /* of a server: heartbeats since all workers have finished */
    int64_t seen_us;      /* time of the last sign of life */
    int64_t pause_us;     /* length of its last silence of silent_us or more; 0: none */
    int64_t pause_end_us; /* time at which that silence ended */
    unsigned todo;        /* bits: actions that the caller has not taken yet */
    ps_status error;      /* why the node failed */
    struct {
        char reason[PS_COMMIT_REASON_MAX];
        char message[PS_COMMIT_MESSAGE_MAX];
    } spared; /* why the attempt goes on without it */
} ps_member;

/* DONE begins its end with STORE, QUEUED with SALVAGE, the others with DECIDED. */
typedef enum ps_commit_stage {
    PS_STAGE_GOING,   /* no outcome yet */
    PS_STAGE_RESCUE,  /* storing the state that is left, before QUEUED goes on */
    PS_STAGE_DECIDED, /* saving the outcome: a later process must not decide otherwise */
    PS_STAGE_SALVAGE, /* collecting what a failed or cancelled job has left */
    PS_STAGE_STORE,   /* writing summary and manifest */
    PS_STAGE_NOTE,    /* saving the outcome with the list of files */
    PS_STAGE_RELEASE, /* the nodes are let go */
    PS_STAGE_CLOSE,   /* saving the final state */
    PS_STAGE_OVER
} ps_commit_stage;

typedef struct ps_commit {
    ps_commit_conf conf;
    ps_member *members; /* (count), owned */
    size_t count;

    Psgd__V1__JobState state;
    Psgd__V1__JobState outcome; /* UNSPECIFIED while going */
    char reason[PS_COMMIT_REASON_MAX];
    char message[PS_COMMIT_MESSAGE_MAX];

    ps_commit_stage stage;
    int64_t deadline_us; /* of the state, or of the stage of the end */
    int64_t decided_us;  /* when the outcome was decided */
    /* Until then a node whose failure may be caused by another node is not held responsible;
     * INT64_MAX: there is no such node. */
    int64_t blame_us;
    bool has_culprit;    /* one of the members is a culprit */
    ps_waits who_waits;  /* as the nodes said last; of one that gave up, as it was then */
    bool has_asked;      /* CanCommit was sent */
    bool has_packages;   /* the packages are made */
    bool barrier_begun;  /* the first Ready has arrived */
    bool is_adopted;     /* an earlier process began it, and may have released nodes */
    bool is_interrupted; /* the outcome is QUEUED because of an interruption before training */
    bool is_recovery;    /* the outcome is QUEUED because of a loss, which another attempt mends */
    bool is_move;        /* the outcome is QUEUED, and another attempt goes on with other nodes */
    bool is_rollback;    /* so it is, because of a divergence */
    unsigned todo;

    char waits[PS_COMMIT_WAITS_MAX]; /* what a full disk delays; "": nothing */
    int64_t retry_us; /* time of the next try; INT64_MAX: it is running, or not needed */
    bool is_unsaved;  /* the end, or its files, could not be stored and is tried again */
    int64_t pause_us; /* pause before the last try */
    bool is_given_up; /* a client gave up the files that wait for room */
    bool is_last_try; /* after that: the running STORE is the last one */
} ps_commit;

/* Begins an attempt in CAN_COMMIT. The caller saves that state and finds the data and model of the
 * packages. Then it calls ps_commit_started, or ps_commit_unstarted or ps_commit_fail if that
 * failed; no node is asked before. `members` (count > 0, at least one worker) are copied. */
void ps_commit_begin(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                     size_t count, int64_t now_us);

/* Adopts an attempt that an earlier process left in RUNNING or COLLECTING. Members with is_spared
 * are lost; one that is silent for lease_us from now on is, too. A node that no longer holds the
 * attempt was released by the earlier process: the attempt ends as after a loss, but the node is
 * not to blame. */
void ps_commit_adopt(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                     size_t count, Psgd__V1__JobState state, int64_t now_us);

/* Adopts an attempt whose outcome an earlier process had decided. Stores summary and manifest,
 * unless `is_stored`, and releases the nodes. */
void ps_commit_adopt_end(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                         size_t count, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                         const char *reason, const char *message, bool is_stored, int64_t now_us);
void ps_commit_fini(ps_commit *c);

/* --- events ---------------------------------------------------------------- */

/* Handles an answer of CanCommit: the node is reserved. `id` and `incarnation` are the node's. */
void ps_commit_reserved(ps_commit *c, size_t node, const char *id, uint64_t incarnation,
                        int64_t now_us);
/* Handles an answer of CanCommit: `holder`, another job, has the node. */
void ps_commit_busy(ps_commit *c, size_t node, const char *id, const char *holder, int64_t now_us);
/* Handles a CanCommit or PreCommit that failed because the node's disk is full. The job goes back
 * to the queue, unless it may not wait. */
void ps_commit_full(ps_commit *c, size_t node, const ps_status *why, int64_t now_us);
/* Handles a failed CanCommit, PreCommit or DoCommit. */
void ps_commit_refused(ps_commit *c, size_t node, const ps_status *why, int64_t now_us);
/* Handles the end of PS_COMMIT_MAKE. Nodes have pre_commit_us from now on to take the packages. */
void ps_commit_packaged(ps_commit *c, int64_t pre_commit_us, int64_t now_us);
/* Handles a node that has lost its reservation before training, for example because it expired
 * while the coordinator was down. Interrupts the attempt. */
void ps_commit_unreserved(ps_commit *c, size_t node, const ps_status *why, int64_t now_us);
/* Handles the acknowledgement of PreCommit's seal: the node is prepared. */
void ps_commit_prepared(ps_commit *c, size_t node, int64_t now_us);
/* Handles a node's Ready. Returns OK if the node may wait at the barrier; PS_COMMIT_OPEN or
 * PS_COMMIT_RELEASE follows for it, now or later. Returns ABORTED if it may not. */
PS_MUST_USE ps_status ps_commit_ready(ps_commit *c, size_t node, uint64_t incarnation,
                                      int64_t now_us);
/* Handles a heartbeat. `holds` says whether the node holds this attempt. `error` is why it failed,
 * in phase FAILED. */
void ps_commit_beat(ps_commit *c, size_t node, uint64_t incarnation, bool holds,
                    Psgd__V1__NodePhase phase, const ps_status *error, int64_t now_us);
/* Notes that the node's failure is a loss, gradient or weight that is not finite, or that its
 * weights are such a model. The attempt ends with the reason DIVERGED, even if it could go on
 * without the node. The job fails, or goes back to the queue if conf.rolls_back. Call it before
 * ps_commit_beat of the same heartbeat, or before ps_commit_collected. */
void ps_commit_diverged(ps_commit *c, size_t node);
/* Notes that the node reports a disk that is nearly full. If the node has failed or fails with
 * RESOURCE_EXHAUSTED, the recovery names it. */
void ps_commit_low_disk(ps_commit *c, size_t node);
/* Notes whom a rank of the node waits for: servers (n_servers) and workers (n_workers) by rank. A
 * server's own rank is `rank`. Call it before ps_commit_beat of the same heartbeat. */
void ps_commit_waits(ps_commit *c, size_t node, uint32_t rank, const uint32_t *servers,
                     size_t n_servers, const uint32_t *workers, size_t n_workers);
/* Handles a node that says that it has finished, though it has not. `why` becomes part of the job's
 * message. Fails the attempt, even if it could go on without the node. */
void ps_commit_lied(ps_commit *c, size_t node, const char *why, int64_t now_us);
/* Handles another sign of life of the node, such as the acknowledgement of a package. */
void ps_commit_seen(ps_commit *c, size_t node, int64_t now_us);
/* Handles a node at whose address nothing listens any more: its process has ended. It is lost if
 * the attempt still needs it. While nodes are asked whether they are ready, it counts as one that
 * does not answer. When nodes are released, its answer is not waited for. */
void ps_commit_gone(ps_commit *c, size_t node, int64_t now_us);
/* Handles a node that has restarted: it has another incarnation. */
void ps_commit_restarted(ps_commit *c, size_t node, uint64_t incarnation, int64_t now_us);
/* Handles the end of Collect. */
void ps_commit_collected(ps_commit *c, size_t node, const ps_status *result, int64_t now_us);
/* Handles a Collect that failed because a disk is full: the node's if `is_its_disk`, else the
 * coordinator's. PS_COMMIT_COLLECT is repeated later. */
void ps_commit_held(ps_commit *c, size_t node, bool is_its_disk, const ps_status *why,
                    int64_t now_us);
/* Returns whether the member is there and trains, or has trained. */
bool ps_commit_is_there(const ps_member *m);
/* Returns the index of the server that has the copies of the one with index `server`. */
size_t ps_commit_copier(const ps_commit *c, size_t server);

/* Handles the end of PS_COMMIT_RESCUE, whether it has succeeded or not. */
void ps_commit_rescued(ps_commit *c, int64_t now_us);
/* Handles the end of PS_COMMIT_STORE: whether the files, summary and manifest were written.
 * FAILED_PRECONDITION: the code of a job that computes has failed. */
void ps_commit_stored(ps_commit *c, const ps_status *result, int64_t now_us);
/* Handles the end of PS_COMMIT_SAVE: whether the job was saved. */
void ps_commit_saved(ps_commit *c, const ps_status *result, int64_t now_us);
/* Says that CAN_COMMIT is saved, so that nodes may be asked. Does nothing if the outcome is
 * decided. */
void ps_commit_started(ps_commit *c, int64_t now_us);
/* Says that CAN_COMMIT could not be saved. No node is asked; the job goes back to the queue. */
void ps_commit_unstarted(ps_commit *c, const ps_status *why, int64_t now_us);
/* Handles the end of Abort: it was answered or has failed. */
void ps_commit_released(ps_commit *c, size_t node, int64_t now_us);
/* Cancels the attempt. If the outcome is decided already, this only gives up the files that wait
 * for room: the others are stored, and `message` says what is lost. */
void ps_commit_cancel(ps_commit *c, const char *why, int64_t now_us);
/* Ends an attempt that trains, for another one with other nodes, which goes on where the workers
 * stand. Does nothing if the outcome is decided. */
void ps_commit_move(ps_commit *c, const char *reason, const char *message, int64_t now_us);
/* Fails the attempt because of the coordinator itself. */
void ps_commit_fail(ps_commit *c, const char *reason, const ps_status *why, int64_t now_us);
/* Says that the job's own checkpoint, which was whole when the attempt began, cannot be read any
 * more. Interrupts the attempt, as the next one takes a checkpoint that is whole. Does nothing if
 * three attempts in a row were interrupted, or memory was lacking: the caller then fails. */
void ps_commit_torn(ps_commit *c, const ps_status *why, int64_t now_us);
/* Gives an outcome DONE that says nothing a reason and a message: which bound ended the job. */
void ps_commit_note(ps_commit *c, const char *reason, const char *message);
/* Tells the machine the time; call it at ps_commit_deadline. */
void ps_commit_tick(ps_commit *c, int64_t now_us);

/* --- answers --------------------------------------------------------------- */

/* Returns the next action and writes its node; PS_COMMIT_NOTHING: there is none. */
ps_commit_action ps_commit_next(ps_commit *c, size_t *node);

/* Returns when ps_commit_tick must be called next; INT64_MAX: not before an event. */
int64_t ps_commit_deadline(const ps_commit *c);

/* Writes the nodes for which the attempt waits now into buf[0..cap), such as "w1, w3"; "" for none.
 * While it trains: those that hold up the others, else those that are silent for late_us. */
void ps_commit_waiting_for(const ps_commit *c, int64_t now_us, char *buf, size_t cap);

/* Returns whether a failure of the coordinator's disk with this code may succeed if repeated. */
bool ps_commit_may_pass(ps_code code);

/* Returns the index of the node, or c->count if it is no member. */
size_t ps_commit_find(const ps_commit *c, const char *node_id);
/* Returns the number of ranks on workers that are not lost. */
uint32_t ps_commit_workers_alive(const ps_commit *c);

#endif
