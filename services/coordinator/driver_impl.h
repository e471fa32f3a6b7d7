/* SPDX-License-Identifier: Apache-2.0 */
/* driver_impl.h - what the files of the driver share; see driver.h. */
#ifndef PS_COORDINATOR_DRIVER_IMPL_H
#define PS_COORDINATOR_DRIVER_IMPL_H

#include "common/job/stop.h"
#include "common/placement/placement.h"
#include "common/rpc/client.h"
#include "services/coordinator/coordinator.h"
#include "services/coordinator/domain/checkpoints.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/attempt_package.h"
#include "services/coordinator/io/init_from.h"
#include "services/coordinator/io/room.h"

#include "psgd/v1/node.pb-c.h"

typedef struct ps_prepare ps_prepare;       /* a running PreCommit; driver_prepare.c */
typedef struct ps_collect ps_collect;       /* a running Collect; driver_collect.c */
typedef struct ps_partitions ps_partitions; /* driver_partitions.c */
typedef struct ps_presence ps_presence; /* a stream that breaks with the node; driver_presence.c */

/* The driver's state of a member of the attempt. */
typedef struct ps_attempt_node {
    ps_attempt *a;
    size_t index; /* in commit.members */
    ps_channel *channel;
    ps_unary *asking; /* CanCommit or DoCommit */
    ps_unary *aborting;
    ps_prepare *prepare;
    ps_collect *collect;
    ps_collect *saving;  /* of a checkpoint */
    ps_collect *tracing; /* of a timeline */
    bool is_told_of_trace;
    bool is_unheard; /* of a server, after a loss: it does not say at which clock it is */
    ps_presence *presence;
    ps_call *ready;      /* the node's Ready, which waits at the barrier; NULL: none */
    bool logs_known;     /* log_name is set */
    ps_strand files;     /* order of the tasks that write the node's log and files */
    bool log_waits;      /* the last attempt to store a part of its log failed */
    bool log_busy;       /* a part of its log is being stored */
    bool log_known;      /* log_stored is set */
    uint64_t log_stored; /* bytes of its log that are stored */
    char log_name[PS_NAME_MAX + 1];
    Psgd__V1__ServerCounters *counters; /* of a server, at its end */
    struct {
        ps_checkpoint_wait wait;
        bool is_asked, is_told;
        uint64_t step; /* 0: it was told that there is none */
    } last;            /* the checkpoint that the node asks for before it stops */
} ps_attempt_node;

/* The last report of a rank. */
typedef struct ps_told {
    size_t member;                      /* index of the member that carries the rank */
    Psgd__V1__WorkerProgress *progress; /* without its evaluation part */
    Psgd__V1__EvaluationPart *part;     /* of the last evaluation; NULL: none yet */
} ps_told;

struct ps_attempt {
    ps_live *job; /* NULL: the attempt is over or dropped, and waits for `pending` */
    ps_coordinator *c;
    ps_commit commit;
    uint32_t number;
    char job_id[96];
    char folder[PS_FOLDER_MAX];
    ps_plan *plan;
    ps_placement placement;    /* which server has which shard; nodes are commit's members */
    ps_package *package;       /* NULL: the attempt was adopted from an earlier process */
    ps_strand archiving;       /* order of the tries to write the last files */
    uint64_t memory_bytes;     /* of the package, counted in the coordinator's budget */
    bool is_stored;            /* CAN_COMMIT is stored */
    bool is_found;             /* the data and the model for the package have been found */
    bool is_noted;             /* its end is noted in the job */
    bool is_summed_up;         /* the job has its goodput */
    ps_attempt_node *nodes;    /* (commit.count) */
    ps_told *told;             /* (placement.rank_count), by rank */
    ps_partitions *partitions; /* of a job that computes; else NULL */
    ps_timer timer;            /* fires at the deadline of `commit` */
    bool is_pumping;
    ps_timer limit;                  /* fires at the end of max_seconds */
    ps_stop_cause end_cause;         /* why the workers end before the last step */
    uint64_t end_clock;              /* where they end; 0: not agreed yet */
    char waits[PS_COMMIT_WAITS_MAX]; /* commit.waits as it was last published */
    size_t logging;                  /* number of nodes whose log is being stored */
    bool store_waits;                /* PS_COMMIT_STORE waits until `logging` is 0 */
    size_t pending;                  /* calls and tasks that have not come back */

    struct {
        ps_cuts cuts;
        ps_chain chain;
        bool is_running;            /* from RUNNING on; cuts is set */
        bool is_looking;            /* the newest one of an adopted attempt is being read */
        int64_t silent_until_us;    /* none is named before, in an adopted attempt */
        bool has_skipped;           /* the job says that the last one was skipped */
        int64_t named_us;           /* when the last one was named */
        char folder[PS_FOLDER_MAX]; /* in which files are gathered */
        ps_intake_file *files;      /* (count): of all nodes so far */
        size_t count;
        ps_checkpoint_wait *waits;
        struct ps_scored {
            uint64_t step;
            double value; /* of the metric of best_by */
        } * scores;       /* (score_count) of the evaluations that all ranks have done, in order */
        size_t score_count;
    } checkpoints;

    struct {
        bool is_running, is_waiting; /* is_waiting: for a checkpoint that is being stored */
        bool has_begun;
        uint64_t step; /* if it has begun: steps that were finished when the loss was noticed */
        bool has_failed;
        bool is_parking, is_collecting, is_replaying;
        bool is_outdated; /* the replay under way: another server is lost */
        uint32_t asks;    /* how often servers were asked at which clock they are */
        size_t asked;     /* servers that have not said at which clock they are */
        size_t at;      /* the member whose files are collected: first workers, then servers, whose
                         * files may come from a copy */
        size_t from;    /* the member that was asked for them */
        uint64_t clock; /* the least of theirs; without servers the greatest of the workers' */
        size_t source;  /* without servers: the worker at that clock, which gives the state */
        uint32_t *lost; /* (lost_count): servers whose state is computed anew */
        size_t lost_count;
    } rescue; /* after a loss; driver_rescue.c */

    struct {
        enum {
            PS_TRACING_NONE,
            PS_TRACING_ASKED,     /* steps are named when the pace of the job is known */
            PS_TRACING_NAMED,     /* nodes record, or will */
            PS_TRACING_COLLECTED, /* their parts are collected */
            PS_TRACING_MERGED     /* a task makes the file */
        } stage;
        uint64_t number; /* of timelines so far */
        uint64_t from_step;
        uint32_t steps;
        size_t at; /* the node whose part is collected */
        ps_trace_wait *wait;
    } trace; /* that is asked for while the job trains; driver_trace.c */

    struct {
        int64_t asked_wall_us;   /* when the change of nodes was asked for that is under way */
        uint64_t stood_clock;    /* checkpoint at which the workers stay, or stayed last */
        int64_t stood_wall_us;   /* when the first of them had taken it */
        uint64_t step;           /* of the checkpoint from which the next attempt goes on */
        ps_checkpoint_wait wait; /* for idle workers */
        bool grows;              /* that one is under way */
        uint32_t idle_workers, idle_servers; /* that join, when it began */
        int64_t since_us; /* since when the attempt has trained, or join has failed */
    } move;

    uint32_t evaluations; /* number of evaluations of which this process knows the scores; those
                           * that were told are in the job */
    struct {
        int64_t us;
        uint64_t samples, step;
    } rate[2]; /* two points of progress, about a second apart, for the rate */
};

static inline ps_member *ps_attempt_node_member(const ps_attempt_node *p)
{
    return &p->a->commit.members[p->index];
}

/* Carries out the actions that `commit` asks for, and sets the timer. */
void ps_attempt_pump(ps_attempt *a);

/* Counts a call or task of `pending` as come back. May free the attempt. */
void ps_attempt_settle(ps_attempt *a);

/* Start a unary call to the node, whose result is reported to `commit`. */
void ps_attempt_node_ask(ps_attempt_node *p);     /* CanCommit */
void ps_attempt_node_start(ps_attempt_node *p);   /* DoCommit */
void ps_attempt_node_release(ps_attempt_node *p); /* Abort, after ps_attempt_node_let_go */

/* Reports to `commit` that PreCommit or DoCommit has failed. */
void ps_attempt_node_refused(ps_attempt_node *p, const ps_error *error);

/* Answers the node's Ready, if one waits: with OK if why_not is NULL, else with that failure. */
void ps_attempt_node_answer_ready(ps_attempt_node *p, const ps_status *why_not);

/* Ends all calls with the node but Abort and its presence. `why` is the reason that the node gets.
 */
void ps_attempt_node_let_go(ps_attempt_node *p, const char *why);

/* Starts PreCommit with one node. Reports to `commit` prepared or refused, unless it is stopped. */
void ps_prepare_start(ps_attempt_node *node);
void ps_prepare_stop(ps_prepare *prepare);

/* Starts to collect a node's files: GetStatus, then Collect, repeated until it succeeds or is
 * stopped. Reports to `commit` success, and failures that a repetition cannot mend. */
void ps_collect_start(ps_attempt_node *node);
void ps_collect_stop(ps_collect *collect);

/* Begins to watch the node's process. Reports to `commit` that it is gone, unless it is stopped. */
void ps_presence_start(ps_attempt_node *node);
void ps_presence_stop(ps_attempt_node *node); /* nothing happens if it has none */

/* Collects the files of a node's checkpoint into a folder, whose path is kept; ends in
 * ps_checkpoint_collected, unless it is stopped. */
void ps_collect_checkpoint(ps_attempt_node *node, uint64_t clock, const char *folder);

/* Does the same with a server's state at the beginning of `clock`, after a loss. Asks again until
 * the server has taken it. `of_copies`: the state of the server of which this one has copies. */
void ps_collect_rescued(ps_attempt_node *node, uint64_t clock, bool of_copies, const char *folder);

/* Has the ranks of a worker stand still; asks again until all of them do. No file comes. Ends in
 * ps_rescue_kept, unless it is stopped. */
void ps_collect_parked(ps_attempt_node *node, const char *folder);

/* Collects what a worker has kept of its contributions to the servers rescue.lost, and its ranks
 * where they are if these have state, likewise; ends in ps_rescue_kept, unless it is stopped. */
void ps_collect_kept(ps_attempt_node *node, const char *folder);

/* Collects the part of the node in a timeline from `from_step` on into a folder, whose path is
 * kept; ends in ps_trace_collected, unless it is stopped. */
void ps_collect_trace(ps_attempt_node *node, uint64_t from_step, const char *folder);

/* --- driver_trace.c ---------------------------------------------------------------- */

/* Says in the answer to a node which steps it records, and goes on with the timeline. */
void ps_traces_beat(ps_attempt *a, size_t node, Psgd__V1__HeartbeatResponse *answer);
/* The part of a node is stored, or why not. */
void ps_trace_collected(ps_attempt_node *node, const ps_status *result);
/* The attempt is over: so is the timeline that is being made. */
void ps_traces_over(ps_attempt *a);
/* Gives up the timeline that is being made, if there is one. */
void ps_traces_end(ps_attempt *a, const ps_status *why);

/* --- driver_checkpoint.c ----------------------------------------------------------- */

/* Return the clock of the slowest rank, which all have reached, and the first one that no node has
 * begun when it hears of it. */
uint64_t ps_attempt_clock(const ps_attempt *a);
uint64_t ps_attempt_clock_ahead(const ps_attempt *a);

/* Begins with checkpoints. When the job runs. */
void ps_checkpoints_begin(ps_attempt *a);

/* driver_adopted.c: of an attempt that was adopted, whose ranks are in step. */

/* Begins to read the newest checkpoint: from it the next one may count, and none up to it is taken
 * again. */
void ps_checkpoints_look(ps_attempt *a);
/* Returns whether none is to be named yet: the earlier coordinator may have named one. */
bool ps_checkpoints_are_silent(const ps_attempt *a);
/* Names the checkpoint `has`, which a node says it has, if the earlier coordinator has named it.
 * Nodes keep what they have of it. Does nothing if somebody wants workers to stay at one: they do
 * not at this one. */
void ps_checkpoints_adopt(ps_attempt *a, uint64_t has);

/* Takes what a heartbeat says about the node's checkpoint, goes on with the one under way, and
 * tells the node which one to take. */
void ps_checkpoints_beat(ps_attempt *a, size_t node, const Psgd__V1__HeartbeatRequest *beat,
                         Psgd__V1__HeartbeatResponse *answer);

/* The files (count) of a node's checkpoint are stored, or why not. */
void ps_checkpoint_collected(ps_attempt_node *node, const ps_status *result,
                             const ps_intake_file *files, size_t count);

/* Notes an evaluation that all ranks have done: `value` is of the metric of best_by. */
void ps_checkpoints_evaluated(ps_attempt *a, uint64_t step, double value);

/* Gives up the checkpoint whose files are being collected, and tells those who wait for one `why`.
 * When the attempt is over or dropped. */
void ps_checkpoints_end(ps_attempt *a, const ps_status *why);

/* Tells all who wait for a checkpoint that there is none. */
void ps_checkpoints_tell(ps_attempt *a, const ps_status *why);

/* Frees what is known of checkpoints. When the attempt is freed. */
void ps_checkpoints_fini(ps_attempt *a);

/* Gives up the checkpoint that is being taken or collected. Returns whether one is being stored,
 * which ends in ps_rescue_go_on. */
bool ps_checkpoints_stop(ps_attempt *a);

/* Stores the gathered files (a->checkpoints.files) as a checkpoint at `clock`; calls
 * ps_rescue_stored. */
void ps_checkpoint_store_rescued(ps_attempt *a, uint64_t clock);

/* Removes what was gathered, after what is still being written of `node`. */
void ps_checkpoint_discard_gathered(ps_attempt_node *node);

/* --- driver_partitions.c ----------------------------------------------------------- */

/* Create and free the state of a job that computes. */
void ps_partitions_create(ps_attempt *a);
void ps_partitions_destroy(ps_partitions *partitions);
/* Sets the step to the partitions that are done. */
void ps_partitions_sum_up(const ps_attempt *a, Psgd__V1__Progress *sum);
/* Returns whether all are done, as far as it is known. */
bool ps_partitions_are_done(const ps_attempt *a);

/* --- driver_rescue.c --------------------------------------------------------------- */

/* Begins to store the state that is left (PS_COMMIT_RESCUE). */
void ps_rescue_start(ps_attempt *a);
/* Goes on when the checkpoint that was being stored is stored, or is not. */
void ps_rescue_go_on(ps_attempt *a);
/* Discards what has been collected, as the attempt ends. */
void ps_rescue_end(ps_attempt *a);
/* Waits no longer for nodes that are lost meanwhile. */
void ps_rescue_lost(ps_attempt *a);
/* What a worker has kept is stored, or why not; files (count) are those and its ranks. */
void ps_rescue_kept(ps_attempt_node *node, const ps_status *result, const ps_intake_file *files,
                    size_t count);
/* The files of a server are here and added to a->checkpoints.files, or why not. */
void ps_rescue_collected(ps_attempt_node *node, const ps_status *result);
/* The checkpoint is stored, or is not. */
void ps_rescue_stored(ps_attempt *a, const ps_status *result, uint64_t step);

/* --- driver_recovery.c ------------------------------------------------------------- */

/* Notes that the attempt trains: what was lost before is mended. */
void ps_attempt_trains(ps_attempt *a);
/* Returns whether a divergence sends the job back to a checkpoint, at half the rate. */
bool ps_attempt_may_roll_back(const ps_attempt *a);
/* Halves the rate of the attempt's specification once for each rollback of the job. *spec shares
 * its members with the job; *recovery replaces one of them. */
void ps_attempt_halve_rate(const ps_attempt *a, Psgd__V1__JobSpec *spec,
                           Psgd__V1__RecoverySpec *recovery);
/* Returns why the node failed, as its heartbeat says. If the node holds the attempt, notes whether
 * training has diverged and whether the node's disk is nearly full. */
ps_status ps_attempt_note_failure(ps_attempt *a, size_t i, const Psgd__V1__HeartbeatRequest *beat,
                                  bool holds);
/* Notes the loss that ends the attempt. Call it once. Attempts that are lost one after the other
 * before they train begin after growing pauses. */
void ps_attempt_note_loss(ps_attempt *a);
/* Notes in the job that the attempt goes on without the node, and publishes that. */
void ps_attempt_note_spared(ps_attempt_node *node);
/* Notes the change of nodes that ends the attempt. Call it once. */
void ps_attempt_note_move(ps_attempt *a);
/* Ends the attempt, whose workers stay at the checkpoint of `step`, because the node was told to
 * stop. */
void ps_attempt_drain(ps_attempt_node *node, uint64_t step);
/* Counts the useful time of the job, once, before its summary is written. */
void ps_attempt_sum_up(ps_attempt *a);

/* Returns the steps a second, of the last second or since training began, whichever is faster.
 * `step` is that of the job's progress. */
double ps_attempt_rate(const ps_attempt *a, uint64_t step);

/* Returns whether the process that carries the rank is lost. */
bool ps_rank_is_lost(const ps_attempt *a, uint32_t rank);

/* Takes the progress (count) that a worker process reports, updates Progress and result of the job
 * and publishes their events. */
void ps_progress_take(ps_attempt *a, ps_attempt_node *node,
                      Psgd__V1__WorkerProgress *const *progress, size_t count, int64_t now_us);

/* Updates whom the job waits for while it trains, and publishes that if it is news. */
void ps_progress_waits(ps_attempt *a, int64_t now_us);

/* Arms the timer of spec.max_seconds. When the job runs. */
void ps_attempt_limit(ps_attempt *a);
/* Tells a worker process, whose progress was taken, to hold or where to end, if the job ends before
 * its last step. */
void ps_attempt_guide(ps_attempt *a, Psgd__V1__HeartbeatResponse *answer);
/* Returns the clock at which all workers end before the last step of the job; 0: they do not. */
uint64_t ps_attempt_early_end(const ps_attempt *a);
/* Returns whether the rank says that it is where all workers end before the last step. */
bool ps_attempt_ended_early(const ps_attempt *a, uint32_t rank);
/* Gives the outcome of a job that is DONE the bound that ended it. */
void ps_attempt_describe_end(ps_attempt *a);

/* Sums up again, with the counters that servers have left. */
void ps_progress_servers(ps_attempt *a, int64_t now_us);

/* Merges the workers' parts of an evaluation into the job's result. Returns false if some live
 * rank's last part is of another evaluation. If a part is malformed or samples are missing, logs
 * that, leaves the result as it was and returns true. */
bool ps_evaluation_parts_merge(ps_attempt *a, uint32_t evaluation);

/* Returns the name under which the node's log is stored; "" while its id is not known. */
const char *ps_attempt_node_log_name(ps_attempt_node *p);

/* Stores the part of the node's log that a heartbeat brings, unless another part is being stored.
 * Writes the stored bytes into `answer`. */
void ps_attempt_node_take_log(ps_attempt_node *p, const Psgd__V1__HeartbeatRequest *beat,
                              Psgd__V1__HeartbeatResponse *answer);

/* Starts to write the servers' model, summary and manifest; reports the result to `commit`. */
void ps_archive_start(ps_attempt *a);

#endif
