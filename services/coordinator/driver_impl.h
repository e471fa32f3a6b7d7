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
#include "services/coordinator/domain/rescue_rounds.h"
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
    size_t index; /* index of the member in commit.members */
    ps_channel *channel;
    /* the call of CanCommit or DoCommit, or of GetStatus in a rescue, in progress; NULL: none */
    ps_unary *asking;
    ps_unary *aborting;
    ps_prepare *prepare;
    ps_collect *collect;
    /* collects the files of a checkpoint, or what the node gives to a rescue; NULL: not running */
    ps_collect *saving;
    ps_collect *tracing; /* collects the node's part of a timeline; NULL: not running */
    bool is_told_of_trace;
    /* of a server that a rescue has asked for its clock: it has failed to tell it */
    bool is_unheard;
    ps_presence *presence;
    ps_call *ready;      /* the node's Ready, which waits at the barrier; NULL: none */
    bool logs_known;     /* log_name was made */
    ps_strand files;     /* strand of the tasks that write the node's log and files */
    bool log_waits;      /* a part of the node's log could not be stored at the last try */
    bool log_busy;       /* a part of the node's log is being stored */
    bool log_known;      /* log_stored is set: the length of the file of the node's log was read */
    uint64_t log_stored; /* number of bytes of the node's log that are stored */
    char log_name[PS_NAME_MAX + 1];
    Psgd__V1__ServerCounters *counters; /* of a server: its counters at the end */
    struct {
        ps_checkpoint_wait wait;
        bool is_asked, is_told;
        uint64_t step; /* if is_told: step of the checkpoint; 0: none could be taken */
    } last;            /* the checkpoint for which the node has asked because it was told to stop */
} ps_attempt_node;

/* What a rank has reported last. */
typedef struct ps_told {
    size_t member;                      /* index of the member that carries the rank */
    Psgd__V1__WorkerProgress *progress; /* report of the rank, without the part of an evaluation */
    Psgd__V1__EvaluationPart *part;     /* the rank's part of the last evaluation; NULL: none yet */
} ps_told;

struct ps_attempt {
    ps_live *job; /* NULL: the attempt is over or dropped, and only waits until `pending` is 0 */
    ps_coordinator *c;
    ps_commit commit;
    uint32_t number;
    char job_id[96];
    char folder[PS_FOLDER_MAX];
    ps_plan *plan;
    /* which server has which shard; the nodes are the members of `commit` */
    ps_placement placement;
    ps_package *package;       /* NULL: the attempt was adopted from an earlier process */
    ps_strand archiving;       /* strand of the tries to write the job's last files */
    uint64_t memory_bytes;     /* bytes that the package takes of the coordinator's budget */
    bool is_stored;            /* the state CAN_COMMIT is stored */
    bool is_found;             /* the data and the model for the package were found */
    bool is_noted;             /* the end of the attempt is noted in the job */
    bool is_summed_up;         /* ps_attempt_sum_up was called */
    ps_attempt_node *nodes;    /* (commit.count) */
    ps_told *told;             /* (placement.rank_count): what each rank has reported last */
    ps_partitions *partitions; /* of a job that computes; else NULL */
    ps_timer timer;            /* fires at the deadline of `commit` */
    bool is_pumping;
    ps_timer limit; /* fires when spec.max_seconds have passed */
    /* why all workers end before the last step; PS_STOP_NONE: they do not */
    ps_stop_cause end_cause;
    /* if end_cause is set: clock at which all workers end; 0: not agreed yet */
    uint64_t end_clock;
    char waits[PS_COMMIT_WAITS_MAX]; /* value of commit.waits that was published last */
    size_t logging;                  /* number of nodes of whose log a part is being stored */
    bool store_waits;                /* PS_COMMIT_STORE waits until `logging` is 0 */
    size_t pending;                  /* number of calls and tasks that have not ended */

    struct {
        ps_cuts cuts;
        ps_chain chain;
        /* the attempt has been RUNNING and the job can have checkpoints: `cuts` is set */
        bool is_running;
        /* in an adopted attempt: a task reads the newest stored checkpoint */
        bool is_looking;
        /* in an adopted attempt: the coordinator names no checkpoint before this time; else 0 */
        int64_t silent_until_us;
        /* the job's message says that the last checkpoint was skipped */
        bool has_skipped;
        int64_t named_us;           /* when the last checkpoint was named */
        char folder[PS_FOLDER_MAX]; /* folder in which the files of a checkpoint are gathered */
        ps_intake_file *files;      /* (count): the gathered files of all nodes so far */
        size_t count;
        ps_checkpoint_wait *waits;
        struct ps_scored {
            uint64_t step;
            double value; /* value of the metric of best_by */
        } * scores;       /* (score_count): evaluations that all ranks have done, in their order */
        size_t score_count;
    } checkpoints;

    struct {
        /* is_waiting: the rescue waits until a checkpoint that is being stored is stored */
        bool is_running, is_waiting;
        bool has_begun;
        /* if has_begun: number of steps that were finished when the loss was noticed */
        uint64_t step;
        bool has_failed;
        bool is_parking, is_collecting, is_replaying;
        bool is_outdated; /* the replay that runs is of no use, because another server was lost */
        ps_rescue_rounds rounds; /* in which nodes are asked at which clock they are */
        size_t asked;            /* number of nodes that have not answered in this round */
        /* index of the member whose files are collected now: first each worker, then each server;
         * the files of a server may come from the server that has its copies */
        size_t at;
        size_t from; /* index of the member that was asked for the files of member `at` */
        /* (lost_count): ranks of the servers whose state is computed anew (replay.h) */
        uint32_t *lost;
        size_t lost_count;
    } rescue; /* storing the state that is left after a loss; driver_rescue.c */

    struct {
        enum {
            PS_TRACING_NONE,
            PS_TRACING_ASKED,     /* asked for; steps are named when the pace of the job is known */
            PS_TRACING_NAMED,     /* steps were named; nodes record them, or will */
            PS_TRACING_COLLECTED, /* the nodes' parts are being collected */
            PS_TRACING_MERGED     /* a task makes the file */
        } stage;
        uint64_t number; /* number of timelines that were asked for so far */
        uint64_t from_step;
        uint32_t steps;
        size_t at; /* index of the node whose part is collected */
        ps_trace_wait *wait;
    } trace; /* the timeline that a client has asked for while the job trains; driver_trace.c */

    struct {
        int64_t asked_wall_us; /* when the change of nodes that is under way was asked for */
        /* clock of the checkpoint at which the workers stay, or stayed last */
        uint64_t stood_clock;
        int64_t stood_wall_us;   /* when a heartbeat first said that a worker has taken it */
        uint64_t step;           /* step of the checkpoint from which the next attempt goes on */
        ps_checkpoint_wait wait; /* waits for the checkpoint after which idle nodes join */
        /* idle nodes are about to join: `wait` waits for a checkpoint that is under way */
        bool grows;
        /* if `grows`: number of idle workers and servers that are to join */
        uint32_t idle_workers, idle_servers;
        int64_t since_us; /* since when the attempt has trained, or since when joining has failed */
    } move;

    /* number of evaluations whose scores this process knows; the job has those that were
     * reported */
    uint32_t evaluations;
    /* Two points of the job's progress, about a second apart, from which its rate is computed:
     * monotonic time in microseconds, samples and step. */
    struct {
        int64_t us;
        uint64_t samples, step;
    } rate[2];
};

static inline ps_member *ps_attempt_node_member(const ps_attempt_node *p)
{
    return &p->a->commit.members[p->index];
}

/* Carries out the actions that `commit` returns, and sets the timer to its deadline. */
void ps_attempt_pump(ps_attempt *a);

/* Notes that a call or task that `pending` counts has ended. May free the attempt. */
void ps_attempt_settle(ps_attempt *a);

/* Each starts a unary call to the node and reports its result to `commit`; of DoCommit only a
 * failure. */
void ps_attempt_node_ask(ps_attempt_node *p);     /* CanCommit */
void ps_attempt_node_start(ps_attempt_node *p);   /* DoCommit */
void ps_attempt_node_release(ps_attempt_node *p); /* Abort, after ps_attempt_node_let_go */

/* Reports to `commit` that CanCommit, PreCommit or DoCommit has failed. */
void ps_attempt_node_refused(ps_attempt_node *p, const ps_error *error);

/* Answers the node's Ready, if one waits: with OK if why_not is NULL, else with that failure. */
void ps_attempt_node_answer_ready(ps_attempt_node *p, const ps_status *why_not);

/* Ends all calls with the node except Abort and the stream of its presence. A Ready that waits
 * fails with ABORTED and the text `why`. */
void ps_attempt_node_let_go(ps_attempt_node *p, const char *why);

/* Starts PreCommit with one node. When it ends, reports to `commit` that the node is prepared, or
 * has refused. ps_prepare_stop ends it without a report. */
void ps_prepare_start(ps_attempt_node *node);
void ps_prepare_stop(ps_prepare *prepare);

/* Starts to collect a node's files: GetStatus, then Collect, repeated until it succeeds. Reports to
 * `commit` that the files are here, that a disk is full, or a failure that repeating cannot repair.
 * ps_collect_stop ends it without a report. */
void ps_collect_start(ps_attempt_node *node);
void ps_collect_stop(ps_collect *collect);

/* Begins to watch whether the node's process runs. When it is found to have ended, reports to
 * `commit` that it is gone. ps_presence_stop ends the watching. */
void ps_presence_start(ps_attempt_node *node);
void ps_presence_stop(ps_attempt_node *node); /* does nothing if the node is not watched */

/* Collects the files of a node's checkpoint at `clock` into a folder, whose path is kept. Calls
 * ps_checkpoint_collected at the end, unless it is stopped. */
void ps_collect_checkpoint(ps_attempt_node *node, uint64_t clock, const char *folder);

/* Collects, after a loss, a server's state at the beginning of `clock`, or in a mesh the state of
 * all ranks from a worker, into a folder, whose path is kept. Asks again until the node has it.
 * of_copies: the state of the server before this one, of which this one has copies. Calls
 * ps_rescue_collected at the end, unless it is stopped. */
void ps_collect_rescued(ps_attempt_node *node, uint64_t clock, bool of_copies, const char *folder);

/* Calls Collect with `parks`, which makes the ranks of a worker stand still; calls again until all
 * of them do. Collects no file. Calls ps_rescue_kept at the end, unless it is stopped. */
void ps_collect_parked(ps_attempt_node *node, const char *folder);

/* Collects the contributions that a worker has kept for the servers rescue.lost; if ranks have
 * state, also the state of its ranks where they stand still. Calls ps_rescue_kept at the end,
 * unless it is stopped. */
void ps_collect_kept(ps_attempt_node *node, const char *folder);

/* Collects the node's part of a timeline, from `from_step` on, into a folder, whose path is kept.
 * Calls ps_trace_collected at the end, unless it is stopped. */
void ps_collect_trace(ps_attempt_node *node, uint64_t from_step, const char *folder);

/* --- driver_trace.c ---------------------------------------------------------------- */

/* Writes into the answer to a node's heartbeat which steps the node has to record, and continues
 * the timeline that is being made. */
void ps_traces_beat(ps_attempt *a, size_t node, Psgd__V1__HeartbeatResponse *answer);
/* Notes that the node's part of a timeline is stored, or why not. */
void ps_trace_collected(ps_attempt_node *node, const ps_status *result);
/* Ends the timeline that is being made, because the attempt is over. */
void ps_traces_over(ps_attempt *a);
/* Gives up the timeline that is being made, if there is one. */
void ps_traces_end(ps_attempt *a, const ps_status *why);

/* --- driver_checkpoint.c ----------------------------------------------------------- */

/* Returns the clock of the slowest rank, which all ranks have reached. */
uint64_t ps_attempt_clock(const ps_attempt *a);
/* Returns a clock that, at the job's pace, no node will have begun when an answer to its heartbeat
 * tells it that clock. */
uint64_t ps_attempt_clock_ahead(const ps_attempt *a);

/* Begins with checkpoints. Call it when the job begins to run. */
void ps_checkpoints_begin(ps_attempt *a);

/* driver_adopted.c: checkpoints of an attempt that was adopted and whose ranks are in step. */

/* Begins to read the newest stored checkpoint, which may be the parent of the next one
 * (checkpoints.h). No checkpoint up to its clock is taken again. */
void ps_checkpoints_look(ps_attempt *a);
/* Returns whether no checkpoint is to be named yet, because the earlier coordinator may have named
 * one. */
bool ps_checkpoints_are_silent(const ps_attempt *a);
/* Handles that a node says that it has the checkpoint at clock `has`. If the earlier coordinator
 * has named that checkpoint, names it again, so that nodes keep their files of it. Does nothing if
 * somebody wants workers to stay at a checkpoint, because they do not stay at this one. */
void ps_checkpoints_adopt(ps_attempt *a, uint64_t has);

/* Handles what a node's heartbeat says about checkpoints, continues the one under way, and writes
 * into the answer which one the node has to take. */
void ps_checkpoints_beat(ps_attempt *a, size_t node, const Psgd__V1__HeartbeatRequest *beat,
                         Psgd__V1__HeartbeatResponse *answer);

/* Notes that the files (count) of a node's checkpoint, or of its state in a rescue, are gathered,
 * or why not. */
void ps_checkpoint_collected(ps_attempt_node *node, const ps_status *result,
                             const ps_intake_file *files, size_t count);

/* Notes an evaluation that all ranks have done. `value`: of the metric of best_by. */
void ps_checkpoints_evaluated(ps_attempt *a, uint64_t step, double value);

/* Gives up the checkpoint whose files are being collected, and tells all who wait for a checkpoint
 * `why`. Call it when the attempt is over, or before a rescue. */
void ps_checkpoints_end(ps_attempt *a, const ps_status *why);

/* Tells all who wait for a checkpoint that there will be none, because of `why`. */
void ps_checkpoints_tell(ps_attempt *a, const ps_status *why);

/* Frees what is known of checkpoints. Call it when the attempt is freed. */
void ps_checkpoints_fini(ps_attempt *a);

/* Removes the checkpoints of a job that is DONE for which nobody has asked. Then calls
 * ps_archive_end. */
void ps_checkpoints_drop_passing(ps_attempt *a);

/* Ends collecting the files of a checkpoint, and tells all who wait for one that a node was lost.
 * Returns true if a checkpoint is being stored; ps_rescue_go_on is called when that has ended. */
bool ps_checkpoints_stop(ps_attempt *a);

/* Stores the gathered files (a->checkpoints.files) as a checkpoint at `clock`, and then calls
 * ps_rescue_stored. */
void ps_checkpoint_store_rescued(ps_attempt *a, uint64_t clock);

/* Removes the gathered files, after the files of `node` that are still being written. */
void ps_checkpoint_discard_gathered(ps_attempt_node *node);

/* --- driver_partitions.c ----------------------------------------------------------- */

/* Create and free the state of an attempt of a job that computes partitions. */
void ps_partitions_create(ps_attempt *a);
void ps_partitions_destroy(ps_partitions *partitions);
/* Sets step and total_steps in *sum to the number of partitions that are done, and of all. */
void ps_partitions_sum_up(const ps_attempt *a, Psgd__V1__Progress *sum);
/* Returns whether all partitions are done, or it is not known yet which are. */
bool ps_partitions_are_done(const ps_attempt *a);

/* --- driver_rescue.c --------------------------------------------------------------- */

/* Begins to store the state that is left after a loss (PS_COMMIT_RESCUE). */
void ps_rescue_start(ps_attempt *a);
/* Continues a rescue that waited until the end of storing a checkpoint; whether it was stored does
 * not matter. */
void ps_rescue_go_on(ps_attempt *a);
/* Removes what was collected, because the attempt ends. */
void ps_rescue_end(ps_attempt *a);
/* Handles the loss of further nodes during a rescue: does not wait for their answers any more, and
 * gets their state from other nodes, or has it computed anew. */
void ps_rescue_lost(ps_attempt *a);
/* Called when ps_collect_parked or ps_collect_kept has ended. If *result is OK, goes on with the
 * rescue; else ends it. files (count): what ps_collect_kept has collected, which is contributions
 * that the worker has kept, and states of its ranks. */
void ps_rescue_kept(ps_attempt_node *node, const ps_status *result, const ps_intake_file *files,
                    size_t count);
/* Notes that the files of a server were collected and added to a->checkpoints.files, or why not. */
void ps_rescue_collected(ps_attempt_node *node, const ps_status *result);
/* Notes that the checkpoint was stored, with its step, or why not. */
void ps_rescue_stored(ps_attempt *a, const ps_status *result, uint64_t step);

/* --- driver_recovery.c ------------------------------------------------------------- */

/* Notes that the attempt trains now, so that open recoveries of the job are closed. */
void ps_attempt_trains(ps_attempt *a);
/* Returns whether a divergence may send the job back to a checkpoint, with half the learning
 * rate. */
bool ps_attempt_may_roll_back(const ps_attempt *a);
/* Halves the learning rate in a copy of the attempt's specification once for each rollback of the
 * job. *spec shares its members with the job; *recovery replaces one of them. */
void ps_attempt_halve_rate(const ps_attempt *a, Psgd__V1__JobSpec *spec,
                           Psgd__V1__RecoverySpec *recovery);
/* Returns why the node failed, as its heartbeat says. If the node holds the attempt, notes whether
 * training has diverged, whether the node's disk is nearly full, and whether the node lacked memory
 * or room. */
ps_status ps_attempt_note_failure(ps_attempt *a, size_t i, const Psgd__V1__HeartbeatRequest *beat,
                                  bool holds);
/* Notes the loss that ends the attempt. Call it once. Attempts that are lost one after the other
 * before they train begin after growing pauses. */
void ps_attempt_note_loss(ps_attempt *a);
/* Notes in the job that the attempt goes on without the node, and publishes it. */
void ps_attempt_note_spared(ps_attempt_node *node);
/* Notes the change of nodes that ends the attempt. Call it once. */
void ps_attempt_note_move(ps_attempt *a);
/* Ends the attempt, whose workers stay at the checkpoint of `step`, because the node was told to
 * stop. */
void ps_attempt_drain(ps_attempt_node *node, uint64_t step);
/* Computes the useful time of the job. Call it before the job's summary is written; only the first
 * call has an effect. */
void ps_attempt_sum_up(ps_attempt *a);

/* Returns the steps a second: between the last two readings (a->rate), or since training began,
 * whichever is faster. `step` is the present step of the job. */
double ps_attempt_rate(const ps_attempt *a, uint64_t step);

/* Returns whether the process that carries the rank is lost. */
bool ps_rank_is_lost(const ps_attempt *a, uint32_t rank);

/* Takes the progress (count) that a worker process reports, updates Progress and result of the job
 * and publishes their events. */
void ps_progress_take(ps_attempt *a, ps_attempt_node *node,
                      Psgd__V1__WorkerProgress *const *progress, size_t count, int64_t now_us);

/* Updates for whom the job waits while it trains, and publishes it if it has changed. */
void ps_progress_waits(ps_attempt *a, int64_t now_us);

/* Starts the timer of spec.max_seconds. Call it when the job begins to run. */
void ps_attempt_limit(ps_attempt *a);
/* If the workers are to end before the last step of the job: writes the directive HOLD into the
 * answer to a worker's heartbeat, or END with the clock at which all workers end, once that is
 * agreed. Call it after the progress in the heartbeat was handled. */
void ps_attempt_guide(ps_attempt *a, Psgd__V1__HeartbeatResponse *answer);
/* Returns the clock at which all workers end before the last step of the job; 0: they do not, or
 * have not agreed to one yet. */
uint64_t ps_attempt_early_end(const ps_attempt *a);
/* Returns whether the rank reports that it is held at the clock where all workers end before the
 * last step; while no such clock is told, whether it is held at all. */
bool ps_attempt_ended_early(const ps_attempt *a, uint32_t rank);
/* If the outcome is DONE, sets its reason and message to the bound that ended the job (max_seconds,
 * max_steps or stop_at). If no bound did, only says in the message which value the metric of
 * stop_at has, if the job has stop_at. */
void ps_attempt_describe_end(ps_attempt *a);

/* Computes the job's Progress again, with the counters that servers had at their end, and publishes
 * it. */
void ps_progress_servers(ps_attempt *a, int64_t now_us);

/* Merges the workers' parts of an evaluation into the job's result. Returns false if the last part
 * of some rank that is not lost is of another evaluation. If a part is malformed or samples are
 * missing, logs that, leaves the result as it was and returns true. */
bool ps_evaluation_parts_merge(ps_attempt *a, uint32_t evaluation);

/* Returns the name under which the node's log is stored; "" while the node's id is not known. */
const char *ps_attempt_node_log_name(ps_attempt_node *p);

/* Stores the part of the node's log that a heartbeat has, unless another part is being stored or
 * the disk lacks room. Writes into `answer` how many bytes of the log are stored. From
 * PS_STAGE_STORE on, drops the part and counts it as stored. */
void ps_attempt_node_take_log(ps_attempt_node *p, const Psgd__V1__HeartbeatRequest *beat,
                              Psgd__V1__HeartbeatResponse *answer);

/* Starts to write the job's last files: the servers' model, or the result of a job that computes,
 * the summary and the manifest. Reports the result to `commit`. */
void ps_archive_start(ps_attempt *a);
/* Continues after ps_checkpoints_drop_passing. */
void ps_archive_end(ps_attempt *a);

#endif
