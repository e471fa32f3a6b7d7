/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - does what commit.h decides: the calls to the nodes of one attempt.
 *
 * An attempt belongs to a job that is not over, lives from its first CanCommit
 * until its nodes are released, then tells coordinator.h and frees itself when
 * its last call has ended. Loop thread.
 */
#ifndef PS_COORDINATOR_DRIVER_H
#define PS_COORDINATOR_DRIVER_H

#include "common/rpc/server.h"
#include "services/coordinator/domain/commit.h"
#include "services/coordinator/domain/known_nodes.h"
#include "services/coordinator/domain/live_job.h"

typedef struct ps_coordinator ps_coordinator;
#include "services/coordinator/domain/live_job.h"

/* A new attempt of a QUEUED job on these members; its number is one more. */
void ps_attempt_start(ps_coordinator *c, ps_live *job, const ps_member *members, size_t count);

/* Goes on with the attempt that the record shows, in whatever state it was. */
void ps_attempt_adopt(ps_coordinator *c, ps_live *job);

/* Lets go of everything without a word to the nodes: the process ends. The job
 * stays as it is stored. */
void ps_attempt_drop(ps_attempt *a);

enum { PS_LOST_MAX = 256 }; /* as many workers as a job may have */

/* A heartbeat of a member's process, whether it is about this attempt or not.
 * answer->lost_workers is (PS_LOST_MAX). */
void ps_attempt_beat(ps_attempt *a, const Psgd__V1__HeartbeatRequest *beat,
                     Psgd__V1__HeartbeatResponse *answer);
/* A member registered; another incarnation is another process. */
void ps_attempt_registered(ps_attempt *a, const ps_node_entry *node);
/* Keeps the call until the barrier opens, or fails it. */
void ps_attempt_ready(ps_attempt *a, const Psgd__V1__ReadyRequest *request, ps_call *call);
void ps_attempt_cancel(ps_attempt *a, const char *why);

/* Called once with OK and the step before which all servers act, or with why they do not. */
typedef void ps_attempt_tables_fn(void *arg, const ps_status *st, uint64_t step);

/* Acts on the sparse tables of the job, on all servers at one step. */
void ps_attempt_act_on_tables(ps_attempt *a, Psgd__V1__TablesAction what,
                              ps_attempt_tables_fn *done, void *arg);

/* Is the node in this attempt, and not lost for it? */
bool ps_attempt_has(const ps_attempt *a, const char *node_id);
uint32_t ps_attempt_number(const ps_attempt *a);

/* Addresses of members that are not registered under them: for ps_schedule_job. */
size_t ps_attempt_count(const ps_attempt *a);
const ps_member *ps_attempt_member(const ps_attempt *a, size_t index);

/* Lends what each rank has reported last, by rank, without its earlier evaluations: `list` has room
 * for PS_LOST_MAX. Returns how many there are. Valid until the next event of the attempt. */
size_t ps_attempt_workers(const ps_attempt *a, Psgd__V1__WorkerProgress *list);

#endif
