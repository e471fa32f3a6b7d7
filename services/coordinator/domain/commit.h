/* SPDX-License-Identifier: Apache-2.0 */
/* commit.h - one attempt of a job, as a state machine.
 *
 * Pure: no I/O, no clock. The caller says what happened and when, then takes the actions that
 * follow with ps_commit_next until there are none:
 *
 *   CAN_COMMIT -> PRE_COMMIT -> DO_COMMIT -> RUNNING -> COLLECTING -> the end
 *
 * The end is an outcome (DONE, FAILED, CANCELLED, or QUEUED for another try) with its reason,
 * decided once, and then stages (ps_commit_stage). DONE may still become FAILED or CANCELLED if its
 * files cannot be made or stored. A node is released only after the outcome is saved and the files
 * that the node gave are stored; until then the node keeps them. But a node without which the
 * attempt goes on is released at once, and with the outcome QUEUED nodes are released before that
 * is saved. `state` stays what it was until the attempt is over, but RUNNING becomes COLLECTING
 * when files are collected.
 *
 * What cannot be saved or stored, mostly for want of room, is tried again, with growing pauses,
 * until it succeeds. A cancellation gives up files that wait, but not the job's record.
 * ps_commit.waits says what waits. The stages that wait for nodes end within a bounded time.
 *
 * Times are monotonic microseconds. Functions name a node by its index in ps_commit.members. */
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
    /* time for the coordinator to find the data and the model for the packages */
    int64_t find_us;
    int64_t can_commit_us; /* time for nodes to answer CanCommit */
    int64_t make_us;       /* time for the coordinator to make the packages */
    int64_t pre_commit_us; /* time for nodes to take all packages; replaced by ps_commit_packaged */
    /* time from DoCommit to the first Ready, and again from there to the last Ready */
    int64_t ready_us;
    int64_t lease_us; /* silence after which a node is lost, from PRE_COMMIT on */
    int64_t late_us;  /* silence after which a node is shown as waited for */
    /* silence after which a node is to blame if other nodes give up waiting */
    int64_t silent_us;
    int64_t collect_us; /* time to collect the files of all nodes */
    /* time to release all nodes; nodes that have not answered by then learn it from answers to
     * their heartbeats */
    int64_t abort_us;
    bool survives_loss; /* the attempt goes on as long as one worker and all servers are alive */
    /* the user chose the nodes: if one of them is busy or silent, the job fails; false: the job
     * goes back to the queue */
    bool nodes_are_named;
    /* a node that is busy, or whose disk is full, fails the job, named or not */
    bool fails_if_busy;
    /* an interruption before training sends the job back to the queue; false: it is treated as a
     * loss */
    bool may_repeat;
    /* Whether the loss of a worker, or of a server, sends the job back to the queue for another
     * attempt; false: it fails the job. */
    bool restarts_workers, restarts_servers;
    /* If another attempt follows a loss of workers alone during training, PS_COMMIT_RESCUE comes
     * first. Then the next attempt goes on from the state that the servers have; in a job without
     * servers, from the state of the workers that are left. */
    bool rescues;
    /* Each server has copies of the state of the server before it (the first one those of the
     * last). So PS_COMMIT_RESCUE also follows a loss of servers if all their copies are left. */
    bool has_copies;
    /* Workers have kept the contributions from which the state of lost servers can be computed. So
     * PS_COMMIT_RESCUE also follows a loss of servers if all workers are left. */
    bool has_kept;
    /* Ranks have state of their own, so PS_COMMIT_RESCUE only follows if all workers are left. */
    bool carries;
    /* a divergence sends the job back to the queue, to go on with half the learning rate */
    bool rolls_back;
    /* several attempts in a row have failed without progress and without a lost node: another such
     * failure fails the job */
    bool fails_alike;
} ps_commit_conf;

/* What the caller has to do, for the node that ps_commit_next names; node 0 if it is not about a
 * node. */
typedef enum ps_commit_action {
    PS_COMMIT_NOTHING,
    PS_COMMIT_ASK,     /* call CanCommit */
    PS_COMMIT_PREPARE, /* begin PreCommit */
    PS_COMMIT_START,   /* call DoCommit */
    PS_COMMIT_OPEN,    /* answer the node's Ready with OK: the barrier is open */
    PS_COMMIT_COLLECT, /* begin Collect */
    /* the attempt goes on without the node: record that in the job, with the reason and message in
     * ps_member.spared */
    PS_COMMIT_SPARED,
    PS_COMMIT_RELEASE, /* end all other calls with the node, refuse its Ready, and call Abort */
    PS_COMMIT_CHANGED, /* `state` has changed: publish it */
    PS_COMMIT_MAKE,    /* make the packages; then call ps_commit_packaged */
    PS_COMMIT_STORE,   /* write summary and manifest; then call ps_commit_stored */
    PS_COMMIT_RESCUE,  /* store the state that is left after a loss; then call ps_commit_rescued */
    /* save the outcome or the final state, as `stage` says; then call ps_commit_saved */
    PS_COMMIT_SAVE,
    PS_COMMIT_OVER /* the last action: `state` is saved, and is final or QUEUED */
} ps_commit_action;

typedef enum ps_member_step {
    PS_MEMBER_NEW,
    PS_MEMBER_ASKED,
    PS_MEMBER_RESERVED,
    PS_MEMBER_PREPARED,
    PS_MEMBER_WAITING, /* the node has called Ready, and waits at the barrier for the others */
    PS_MEMBER_RUNNING,
    PS_MEMBER_OVER /* has finished or failed, or is to give its files */
} ps_member_step;

typedef enum ps_member_files {
    PS_FILES_NONE,
    PS_FILES_ASKED,
    PS_FILES_HELD, /* could not be written because a disk is full; asked for again later */
    PS_FILES_HERE,
    PS_FILES_LOST
} ps_member_files;

typedef struct ps_member {
    /* Set by the caller before ps_commit_begin. The state machine may learn id and incarnation
     * later, from the node's answer to CanCommit; the caller then writes threads and version. */
    char id[PS_COMMIT_NODE_ID_MAX];
    char address[PS_COMMIT_ADDRESS_MAX];
    Psgd__V1__NodeRole role;
    uint32_t rank;        /* number of a server; of a worker process, the first of its ranks */
    uint32_t rank_count;  /* number of ranks of the process, from `rank` on; 1 for a server */
    uint64_t incarnation; /* number of the node's process; 0: not known yet */
    uint32_t threads;     /* number of threads that a server reports; 0: not known yet */
    char version[PS_COMMIT_VERSION_MAX]; /* version of the node's program; "": not known yet */
    /* the attempt goes on without the node; the caller of ps_commit_adopt sets it, too */
    bool is_spared;

    /* Written by the state machine. */
    ps_member_step step;
    ps_member_files files;
    bool is_lost; /* the attempt no longer waits for the node */
    /* the node's process has ended, so it holds nothing and will not answer */
    bool is_gone;
    bool is_releasing; /* Abort was sent to the node, is about to be, or is not needed */
    bool is_released;  /* Abort was answered, has failed, or is not needed */
    bool is_silent;    /* did not answer CanCommit */
    /* the node has reported a failure that another node may have caused, and is not held
     * responsible yet; see blame_us */
    bool is_blamed;
    bool is_culprit;     /* the node holds up others, and a node has is_blamed */
    bool has_left;       /* the node was told to stop, and that ended the attempt */
    bool has_low_disk;   /* the node reports that its disk is nearly full */
    bool has_diverged;   /* the node fails because a number of the training is not finite */
    unsigned idle_beats; /* heartbeats in a row without this attempt, while it should run */
    unsigned beats;      /* heartbeats since blame_us was set */
    /* of a server: heartbeats since all workers have finished, while it has not */
    unsigned open_beats;
    int64_t seen_us;      /* time of the last sign of life */
    int64_t pause_us;     /* length of its last silence of silent_us or more; 0: none */
    int64_t pause_end_us; /* time at which that silence ended */
    unsigned todo;        /* bits: actions that the caller has not taken from ps_commit_next yet */
    ps_status error;      /* why the node failed */
    struct {
        char reason[PS_COMMIT_REASON_MAX];
        char message[PS_COMMIT_MESSAGE_MAX];
    } spared; /* why the attempt goes on without it */
} ps_member;

/* What the end of an attempt is doing. DONE begins with STORE, QUEUED with RESCUE or SALVAGE, the
 * other outcomes with DECIDED. */
typedef enum ps_commit_stage {
    PS_STAGE_GOING, /* no outcome yet */
    /* the state that is left after a loss is being stored, before QUEUED goes on */
    PS_STAGE_RESCUE,
    /* the outcome is being saved, so that a later process does not decide otherwise */
    PS_STAGE_DECIDED,
    PS_STAGE_SALVAGE, /* files of a failed or cancelled job are being collected from its nodes */
    PS_STAGE_STORE,   /* summary and manifest are being written */
    PS_STAGE_NOTE,    /* the outcome is being saved with the list of files */
    PS_STAGE_RELEASE, /* nodes are being released */
    PS_STAGE_CLOSE,   /* the final state is being saved */
    PS_STAGE_OVER
} ps_commit_stage;

typedef struct ps_commit {
    ps_commit_conf conf;
    ps_member *members; /* (count), owned */
    size_t count;

    Psgd__V1__JobState state;
    Psgd__V1__JobState outcome; /* UNSPECIFIED until an outcome is decided */
    char reason[PS_COMMIT_REASON_MAX];
    char message[PS_COMMIT_MESSAGE_MAX];

    ps_commit_stage stage;
    int64_t deadline_us; /* deadline of `state`, or of `stage` during the end */
    int64_t decided_us;  /* when the outcome was decided */
    /* Nodes with is_blamed are not held responsible for their failures until this time at the
     * latest. INT64_MAX: there are none. */
    int64_t blame_us;
    bool has_culprit; /* one of the members is a culprit */
    /* graph of who waits for whom, from the last report of each node; a node that gave up waiting
     * keeps the edges that it had then */
    ps_waits who_waits;
    bool has_asked;     /* CanCommit was sent */
    bool has_packages;  /* the packages are made */
    bool barrier_begun; /* the first Ready has arrived */
    /* an earlier process of the coordinator began the attempt, and may have released nodes */
    bool is_adopted;
    bool is_interrupted; /* an interruption before training has decided the outcome */
    /* the outcome is QUEUED because of a loss or a divergence; another attempt goes on */
    bool is_recovery;
    /* the outcome is QUEUED because another attempt is to go on with other nodes */
    bool is_move;
    bool is_rollback; /* the outcome is QUEUED because of a divergence */
    /* bits: actions without a node that the caller has not taken from ps_commit_next yet */
    unsigned todo;

    char waits[PS_COMMIT_WAITS_MAX]; /* what a full disk delays; "": nothing */
    int64_t retry_us; /* time of the next try to store; INT64_MAX: it is running, or not needed */
    bool is_unsaved;  /* the end, or its files, could not be stored; another try follows */
    int64_t pause_us; /* pause before the last try */
    bool is_given_up; /* a client has given up the files that wait for room on the disk */
    bool is_last_try; /* after is_given_up: the running PS_COMMIT_STORE is the last try */
} ps_commit;

/* Begins an attempt in CAN_COMMIT. The caller saves that state, and finds the data and the model
 * for the packages. When both have succeeded it calls ps_commit_started; before that no node is
 * asked. If the state could not be saved, it calls ps_commit_unstarted instead; if data or model
 * were not found, ps_commit_fail. `members` (count > 0, at least one worker) are copied. */
void ps_commit_begin(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                     size_t count, int64_t now_us);

/* Adopts an attempt that an earlier process left in RUNNING or COLLECTING. Members with is_spared
 * count as lost. A member that is silent for lease_us from now on is lost too. A node that no
 * longer holds the attempt counts as released by the earlier process: if the attempt cannot go on
 * without the node, it ends as after a loss, but the node is not to blame. */
void ps_commit_adopt(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                     size_t count, Psgd__V1__JobState state, int64_t now_us);

/* Adopts an attempt whose outcome an earlier process had decided. Stores summary and manifest,
 * unless `is_stored` or the outcome is QUEUED, and releases the nodes. */
void ps_commit_adopt_end(ps_commit *c, const ps_commit_conf *conf, const ps_member *members,
                         size_t count, Psgd__V1__JobState state, Psgd__V1__JobState outcome,
                         const char *reason, const char *message, bool is_stored, int64_t now_us);
void ps_commit_fini(ps_commit *c);

/* --- events ---------------------------------------------------------------- */

/* Handles the answer OK to CanCommit: the node is reserved. `id` and `incarnation` are the
 * node's. */
void ps_commit_reserved(ps_commit *c, size_t node, const char *id, uint64_t incarnation,
                        int64_t now_us);
/* Handles the answer to CanCommit that another job, `holder`, has the node. */
void ps_commit_busy(ps_commit *c, size_t node, const char *id, const char *holder, int64_t now_us);
/* Handles a CanCommit or PreCommit that failed because the node's disk is full. The job goes back
 * to the queue, unless fails_if_busy. */
void ps_commit_full(ps_commit *c, size_t node, const ps_status *why, int64_t now_us);
/* Handles a failed CanCommit, PreCommit or DoCommit. */
void ps_commit_refused(ps_commit *c, size_t node, const ps_status *why, int64_t now_us);
/* Handles the end of PS_COMMIT_MAKE. Nodes have pre_commit_us from now on to take the packages. */
void ps_commit_packaged(ps_commit *c, int64_t pre_commit_us, int64_t now_us);
/* Handles a node that has lost its reservation before training, for example because it expired
 * while the coordinator was down. Interrupts the attempt. */
void ps_commit_unreserved(ps_commit *c, size_t node, const ps_status *why, int64_t now_us);
/* Handles the acknowledgement of the last package of PreCommit, the seal: the node is prepared. */
void ps_commit_prepared(ps_commit *c, size_t node, int64_t now_us);
/* Handles a node's Ready. Returns OK if the node may wait at the barrier; the action PS_COMMIT_OPEN
 * or PS_COMMIT_RELEASE follows for it, now or later. Returns ABORTED if it may not wait. */
PS_MUST_USE ps_status ps_commit_ready(ps_commit *c, size_t node, uint64_t incarnation,
                                      int64_t now_us);
/* Handles a heartbeat. `holds`: the node holds this attempt. `error` is why it has failed, if its
 * phase is FAILED. */
void ps_commit_beat(ps_commit *c, size_t node, uint64_t incarnation, bool holds,
                    Psgd__V1__NodePhase phase, const ps_status *error, int64_t now_us);
/* Notes that the node has failed because a loss, gradient or weight is not finite, or that it has
 * left weights that are not. When the node then fails or is lost, the attempt ends with the reason
 * DIVERGED, even if it could go on without the node. The job fails, or goes back to the queue if
 * conf.rolls_back. Call it before ps_commit_beat of the same heartbeat, or before
 * ps_commit_collected with an error. */
void ps_commit_diverged(ps_commit *c, size_t node);
/* Notes that the node reports a disk that is nearly full. If the node fails with
 * RESOURCE_EXHAUSTED, earlier or later, the recovery names the disk. */
void ps_commit_low_disk(ps_commit *c, size_t node);
/* Notes for whom a rank of the node waits: servers (n_servers) and workers (n_workers), by rank. Of
 * a server, `rank` is its own. Call it before ps_commit_beat of the same heartbeat. */
void ps_commit_waits(ps_commit *c, size_t node, uint32_t rank, const uint32_t *servers,
                     size_t n_servers, const uint32_t *workers, size_t n_workers);
/* Handles a node that says that it has finished although it has not. `why` becomes part of the
 * job's message. Fails the attempt, even if it could go on without the node. */
void ps_commit_lied(ps_commit *c, size_t node, const char *why, int64_t now_us);
/* Handles another sign of life of the node, such as the acknowledgement of a package. */
void ps_commit_seen(ps_commit *c, size_t node, int64_t now_us);
/* Handles that nothing listens at the node's address any more: its process has ended. The node is
 * lost if the attempt still needs it. During CanCommit it counts as a node that does not answer.
 * When nodes are released, its answer to Abort is not waited for. */
void ps_commit_gone(ps_commit *c, size_t node, int64_t now_us);
/* Handles a sign of life of a member's process. Does nothing if `incarnation` is the member's, if
 * the member's is not known, or if the attempt needs nothing more of the member. Else the member's
 * process was restarted and no longer holds the attempt. If the member has not answered CanCommit,
 * the job goes back to the queue, unless the user named the nodes. Later, but before training, the
 * attempt is interrupted. After that the node is lost. */
void ps_commit_restarted(ps_commit *c, size_t node, uint64_t incarnation, int64_t now_us);
/* Handles the end of Collect. `result`: OK if all files of the node are stored; else its files are
 * lost. */
void ps_commit_collected(ps_commit *c, size_t node, const ps_status *result, int64_t now_us);
/* Handles a Collect that failed because a disk is full: the node's if `is_its_disk`, else the
 * coordinator's. PS_COMMIT_COLLECT is repeated later. If the job was cancelled, the node's files
 * are lost instead. */
void ps_commit_held(ps_commit *c, size_t node, bool is_its_disk, const ps_status *why,
                    int64_t now_us);
/* Returns whether the member trains or has trained, has not failed, and is not lost, gone or a
 * culprit. */
bool ps_commit_is_there(const ps_member *m);
/* Returns the index of the member that has the copies of the server with index `server`. */
size_t ps_commit_copier(const ps_commit *c, size_t server);

/* Handles the end of PS_COMMIT_RESCUE, successful or not. */
void ps_commit_rescued(ps_commit *c, int64_t now_us);
/* Handles the end of PS_COMMIT_STORE. `result`: whether summary and manifest were written.
 * FAILED_PRECONDITION: the code of a job that computes has failed. */
void ps_commit_stored(ps_commit *c, const ps_status *result, int64_t now_us);
/* Handles the end of PS_COMMIT_SAVE. `result`: whether the job was saved. */
void ps_commit_saved(ps_commit *c, const ps_status *result, int64_t now_us);
/* Notes that the state CAN_COMMIT is saved and that data and model are found, so that nodes may be
 * asked. Does nothing if the outcome is decided. */
void ps_commit_started(ps_commit *c, int64_t now_us);
/* Notes that the state CAN_COMMIT could not be saved. No node is asked; the job goes back to the
 * queue. */
void ps_commit_unstarted(ps_commit *c, const ps_status *why, int64_t now_us);
/* Handles the end of Abort: it was answered or has failed. */
void ps_commit_released(ps_commit *c, size_t node, int64_t now_us);
/* Cancels the attempt. If the outcome is decided already, only gives up the files that wait for
 * room on the disk: the other files are stored, and `message` says what is lost. */
void ps_commit_cancel(ps_commit *c, const char *why, int64_t now_us);
/* Ends an attempt that trains, with the outcome QUEUED, so that the next attempt goes on with other
 * nodes from the checkpoint at which the workers stay. Does nothing if the outcome is decided. */
void ps_commit_move(ps_commit *c, const char *reason, const char *message, int64_t now_us);
/* Decides FAILED because of something that no node has caused, such as data that the coordinator
 * does not have, or a failure of the job's code. */
void ps_commit_fail(ps_commit *c, const char *reason, const ps_status *why, int64_t now_us);
/* Handles that the job's own checkpoint, which was whole when the attempt began, cannot be read any
 * more. Interrupts the attempt, because the next one chooses a checkpoint that is whole. Does
 * nothing if three attempts in a row were interrupted, or if memory was lacking; then the caller
 * fails the attempt. */
void ps_commit_torn(ps_commit *c, const ps_status *why, int64_t now_us);
/* Sets the reason and message of the outcome DONE: they say which bound ended the job, such as
 * max_steps or stop_at. Does nothing if the outcome is another one or has a message. */
void ps_commit_note(ps_commit *c, const char *reason, const char *message);
/* Handles the deadlines that have passed at now_us. Call it at the time of ps_commit_deadline. */
void ps_commit_tick(ps_commit *c, int64_t now_us);

/* --- answers --------------------------------------------------------------- */

/* Returns the next action for the caller and writes its node; PS_COMMIT_NOTHING: there is none. */
ps_commit_action ps_commit_next(ps_commit *c, size_t *node);

/* Returns the time at which ps_commit_tick must be called next; INT64_MAX: only after another
 * event. */
int64_t ps_commit_deadline(const ps_commit *c);

/* Writes the nodes for which the attempt waits now to buf[0..cap), such as "w1, w3"; "": none.
 * Before CanCommit, and until the packages are made, this is "the coordinator". While it trains
 * these are the nodes that hold up the others; if there are none, the nodes that are silent for
 * late_us. */
void ps_commit_waiting_for(const ps_commit *c, int64_t now_us, char *buf, size_t cap);

/* Returns whether a failure of the coordinator's disk with this code may be repaired by trying
 * again. */
bool ps_commit_may_pass(ps_code code);

/* Returns the index of the node, or c->count if it is no member. */
size_t ps_commit_find(const ps_commit *c, const char *node_id);
/* Returns the number of ranks on workers that are not lost. */
uint32_t ps_commit_workers_alive(const ps_commit *c);

#endif
