/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - carries out the decisions of commit.h: the calls to the nodes of one attempt.
 *
 * An attempt belongs to a job that is not over. It exists from its first CanCommit until its nodes
 * are released. Then the attempt tells the list of jobs, and is freed when its last call has ended.
 * Loop's thread. */
#ifndef PS_COORDINATOR_DRIVER_H
#define PS_COORDINATOR_DRIVER_H

#include "common/rpc/server.h"
#include "services/coordinator/domain/commit.h"
#include "services/coordinator/domain/known_nodes.h"
#include "services/coordinator/domain/live_job.h"

typedef struct ps_coordinator ps_coordinator;

/* Starts a new attempt of a QUEUED job on these members, with the next attempt number. If the job's
 * specification is refused, stores FAILED instead. */
void ps_attempt_start(ps_coordinator *c, ps_live *job, const ps_member *members, size_t count);

/* Goes on with the attempt that the job's record shows, in any state; an earlier process began
 * it. */
void ps_attempt_adopt(ps_coordinator *c, ps_live *job);

/* Ends all calls without informing the nodes, because the process ends. The job stays as it is
 * stored. */
void ps_attempt_drop(ps_attempt *a);

enum { PS_LOST_MAX = 256 }; /* most workers of a job */

/* Handles a heartbeat of a member's process, also if it is about another attempt or none.
 * answer->lost_workers has room for PS_LOST_MAX. */
void ps_attempt_beat(ps_attempt *a, const Psgd__V1__HeartbeatRequest *beat,
                     Psgd__V1__HeartbeatResponse *answer);
/* Handles the registration of a member. If the incarnation in `node` is another one than the
 * member's, the member's process was restarted and no longer holds the attempt
 * (ps_commit_restarted). */
void ps_attempt_registered(ps_attempt *a, const ps_node_entry *node);
/* Ends the lease of a member whose certificate was revoked. */
void ps_attempt_expel(ps_attempt *a, const char *node_id);
/* Keeps the call of Ready until the barrier opens, or refuses it. */
void ps_attempt_ready(ps_attempt *a, const Psgd__V1__ReadyRequest *request, ps_call *call);
/* Takes the records of a finished partition and answers with another partition
 * (driver_partitions.c). */
void ps_attempt_take_partition(ps_attempt *a, const Psgd__V1__TakePartitionRequest *request,
                               ps_call *call);
void ps_attempt_cancel(ps_attempt *a, const char *why);

/* Called once: with OK and the step before which all servers act on their tables, or with the
 * failure. */
typedef void ps_attempt_tables_fn(void *arg, const ps_status *st, uint64_t step);

/* Makes all servers act on the sparse tables of the job before the same step. Calls `done` when all
 * servers have agreed to the step. */
void ps_attempt_act_on_tables(ps_attempt *a, Psgd__V1__TablesAction what,
                              ps_attempt_tables_fn *done, void *arg);

/* Asks for a checkpoint of the job, which is taken later, and writes the clock at whose beginning
 * it is probably taken. FAILED_PRECONDITION: the job does not train, cannot have checkpoints, ends
 * earlier, or has lost a rank. OUT_OF_RANGE: a rank has done all of its steps. A rank that is lost
 * or done only matters if no earlier checkpoint has it. */
PS_MUST_USE ps_status ps_attempt_take_checkpoint(ps_attempt *a, uint64_t *clock);

/* A request for a checkpoint, with what is called when it is stored. */
typedef struct ps_checkpoint_wait ps_checkpoint_wait;
struct ps_checkpoint_wait {
    /* Called once: OK and the step of the checkpoint that is stored, or why there is none. May free
     * the wait; may end the attempt if the result is OK. */
    void (*told)(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step);

    /* workers stay at the checkpoint, because the job is to go on with other nodes; if the result
     * is OK, the caller calls ps_attempt_move */
    bool stays;

    /* used by the driver */
    ps_attempt *a;
    uint64_t after; /* the checkpoint has to be of a later clock than this */
    ps_timer timer;
    ps_checkpoint_wait *next;
};

/* Takes a checkpoint of the job and calls wait->told, perhaps at once; `wait` is kept until then.
 * The result is DEADLINE_EXCEEDED after within_us (0: never); a failure of
 * ps_attempt_take_checkpoint; FAILED_PRECONDITION if the attempt ends before; UNAVAILABLE if the
 * coordinator stops; or a failure of storing the checkpoint. */
void ps_attempt_await_checkpoint(ps_attempt *a, int64_t within_us, ps_checkpoint_wait *wait);

/* A request for a timeline, with what is called when it is made. */
typedef struct ps_trace_wait ps_trace_wait;
struct ps_trace_wait {
    /* Returns whether somebody still waits for the timeline. */
    bool (*is_wanted)(const ps_trace_wait *wait);
    /* Called once: with OK, the name of the file and its first step, or with the failure. May free
     * the request. */
    void (*told)(ps_trace_wait *wait, const ps_status *result, const char *name,
                 uint64_t from_step);
};

/* Makes the nodes record a timeline of `steps` steps that begin a little later, and calls
 * wait->told when its file is stored, perhaps at once; `wait` is kept until then. The result is
 * FAILED_PRECONDITION if the job does not train, ends earlier, has a timeline by its specification,
 * or another one is being made; RESOURCE_EXHAUSTED if the job has 64 timelines; CANCELLED if nobody
 * waits any more; UNAVAILABLE if the coordinator stops; or the failure of a node or of the file. */
void ps_attempt_trace(ps_attempt *a, uint32_t steps, ps_trace_wait *wait);

/* Ends the attempt, whose workers stay at the checkpoint of `step`, so that another one begins with
 * other nodes. `reason` and `message` go into Job.recoveries. Does nothing if the outcome of the
 * attempt is decided. */
void ps_attempt_move(ps_attempt *a, const char *reason, const char *message, uint64_t step);

/* Lets idle nodes (so many workers and servers) join the job: takes a checkpoint and then ends the
 * attempt as ps_attempt_move does. Returns true if such a checkpoint was asked for, now or earlier;
 * false if the job does not train, or has not trained for the shortest time between two such
 * changes. */
bool ps_attempt_grow(ps_attempt *a, uint32_t workers, uint32_t servers);

/* Returns whether the job's specification asks for checkpoints. */
bool ps_attempt_has_checkpoints(const ps_attempt *a);

/* Returns whether the node is a member of this attempt and not lost. */
bool ps_attempt_has(const ps_attempt *a, const char *node_id);
uint32_t ps_attempt_number(const ps_attempt *a);

/* Return the number of members, and a member. For ps_schedule_job, which has to know the addresses
 * of members that are not registered. */
size_t ps_attempt_count(const ps_attempt *a);
const ps_member *ps_attempt_member(const ps_attempt *a, size_t index);

/* Copies the last report of each rank, by rank, without earlier evaluations, to `list`, which has
 * room for PS_LOST_MAX. Returns their number. What they point to is valid until the next event of
 * the attempt. */
size_t ps_attempt_workers(const ps_attempt *a, Psgd__V1__WorkerProgress *list);

#endif
