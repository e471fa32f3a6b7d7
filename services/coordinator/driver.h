/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - carries out the decisions of commit.h: the calls to the nodes of one attempt.
 *
 * An attempt belongs to a job that is not over. It exists from its first CanCommit until its
 * nodes are released. Then it informs the coordinator and frees itself when its last call has
 * ended. Loop's thread.
 */
#ifndef PS_COORDINATOR_DRIVER_H
#define PS_COORDINATOR_DRIVER_H

#include "common/rpc/server.h"
#include "services/coordinator/domain/commit.h"
#include "services/coordinator/domain/known_nodes.h"
#include "services/coordinator/domain/live_job.h"

typedef struct ps_coordinator ps_coordinator;

/* Starts a new attempt of a QUEUED job on these members, with the next attempt number. */
void ps_attempt_start(ps_coordinator *c, ps_live *job, const ps_member *members, size_t count);

/* Adopts the attempt that the record shows, in any state. */
void ps_attempt_adopt(ps_coordinator *c, ps_live *job);

/* Ends all calls without informing the nodes, because the process ends. The job stays as it is
 * stored. */
void ps_attempt_drop(ps_attempt *a);

enum { PS_LOST_MAX = 256 }; /* as many workers as a job may have */

/* Handles a heartbeat of a member's process, whether it is about this attempt or not.
 * answer->lost_workers has room for PS_LOST_MAX. */
void ps_attempt_beat(ps_attempt *a, const Psgd__V1__HeartbeatRequest *beat,
                     Psgd__V1__HeartbeatResponse *answer);
/* Handles a registration of a member. Another incarnation is another process. */
void ps_attempt_registered(ps_attempt *a, const ps_node_entry *node);
/* Ends the lease of a member whose certificate was revoked. */
void ps_attempt_expel(ps_attempt *a, const char *node_id);
/* Keeps the call until the barrier opens, or fails it. */
void ps_attempt_ready(ps_attempt *a, const Psgd__V1__ReadyRequest *request, ps_call *call);
/* Takes the records of a partition and gives another one (driver_partitions.c). */
void ps_attempt_take_partition(ps_attempt *a, const Psgd__V1__TakePartitionRequest *request,
                               ps_call *call);
void ps_attempt_cancel(ps_attempt *a, const char *why);

/* Called once: with OK and the step before which all servers act, or with the failure. */
typedef void ps_attempt_tables_fn(void *arg, const ps_status *st, uint64_t step);

/* Has all servers act on the sparse tables of the job before the same step. Calls `done` when all
 * have agreed to the step. */
void ps_attempt_act_on_tables(ps_attempt *a, Psgd__V1__TablesAction what,
                              ps_attempt_tables_fn *done, void *arg);

/* Takes a checkpoint of the job; writes the clock at whose beginning. FAILED_PRECONDITION: the job
 * does not train, cannot have checkpoints, or ends before. */
PS_MUST_USE ps_status ps_attempt_take_checkpoint(ps_attempt *a, uint64_t *clock);

/* Somebody who waits for a checkpoint. */
typedef struct ps_checkpoint_wait ps_checkpoint_wait;
struct ps_checkpoint_wait {
    /* Called once: OK and the step of the checkpoint that is stored, or why there is none. May free
     * the wait; may end the attempt if the result is OK. */
    void (*told)(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step);

    /* Workers stop at the checkpoint, because the job is to go on with other nodes: the caller
     * calls ps_attempt_move if the result is OK. */
    bool stays;

    /* the driver's */
    ps_attempt *a;
    uint64_t after; /* clock after which the checkpoint is */
    ps_timer timer;
    ps_checkpoint_wait *next;
};

/* Takes a checkpoint of the job and tells `wait`, which is kept until then, maybe at once. Fails
 * with DEADLINE_EXCEEDED after within_us (0: never), with FAILED_PRECONDITION as
 * ps_attempt_take_checkpoint and if the job ends before, with UNAVAILABLE if the coordinator stops,
 * and as the storing of the checkpoint does. */
void ps_attempt_await_checkpoint(ps_attempt *a, int64_t within_us, ps_checkpoint_wait *wait);

/* Somebody who waits for a timeline. */
typedef struct ps_trace_wait ps_trace_wait;
struct ps_trace_wait {
    /* Returns whether it still waits. */
    bool (*is_wanted)(const ps_trace_wait *wait);
    /* Called once: OK, the name of the file and its first step, or why there is none. May free the
     * wait. */
    void (*told)(ps_trace_wait *wait, const ps_status *result, const char *name,
                 uint64_t from_step);
};

/* Records a timeline of `steps` steps, a little ahead, and tells `wait`, which is kept until then,
 * maybe at once. Fails with FAILED_PRECONDITION if the job does not train, ends before, has a
 * timeline of its own, or another one is being made. */
void ps_attempt_trace(ps_attempt *a, uint32_t steps, ps_trace_wait *wait);

/* Ends the attempt, whose workers stay at the checkpoint of `step`, for one with other nodes.
 * Reason and message are those of Job.recoveries. Does nothing if the end of the attempt is
 * decided. */
void ps_attempt_move(ps_attempt *a, const char *reason, const char *message, uint64_t step);

/* Has idle workers and servers join the job: ends the attempt as ps_attempt_move does, at a checkpoint.
 * Returns false if it has not trained for the interval between two such changes, or does not
 * train. Returns true while that is under way, too. */
bool ps_attempt_grow(ps_attempt *a, uint32_t workers, uint32_t servers);

/* Returns whether the job's specification asks for checkpoints. */
bool ps_attempt_has_checkpoints(const ps_attempt *a);

/* Returns whether the node is a member of this attempt and not lost. */
bool ps_attempt_has(const ps_attempt *a, const char *node_id);
uint32_t ps_attempt_number(const ps_attempt *a);

/* Return the number of members, and a member: ps_schedule_job needs the addresses that are not
 * registered. */
size_t ps_attempt_count(const ps_attempt *a);
const ps_member *ps_attempt_member(const ps_attempt *a, size_t index);

/* Lends the last report of each rank, by rank, without its earlier evaluations. `list` has room for
 * PS_LOST_MAX. Returns their number. Valid until the next event of the attempt. */
size_t ps_attempt_workers(const ps_attempt *a, Psgd__V1__WorkerProgress *list);

#endif
