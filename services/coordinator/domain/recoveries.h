/* SPDX-License-Identifier: Apache-2.0 */
/* recoveries.h - what is recorded about the losses of a job and changes of its nodes
 * (Job.recoveries), and the time that they cost.
 *
 * Pure. A recovery is open from the loss or change until the next attempt trains. Several may be
 * open, if attempts are lost before they train. A loss that the attempt survives is never open.
 * Wall times are microseconds since 1970. The messages are in memory of malloc, as those of
 * job_message.h. */
#ifndef PS_COORDINATOR_RECOVERIES_H
#define PS_COORDINATOR_RECOVERIES_H

#include "services/coordinator/domain/commit.h"

enum { PS_RECOVERIES_KEPT = 100 };

/* Adds the loss that ends an attempt; because of it the commit's outcome is QUEUED. `now_us` is the
 * commit's present time. The loss was noticed when the outcome was decided, which is earlier if the
 * state that is left was stored first. `step`: number of steps that were finished then. */
void ps_recovery_add(Psgd__V1__Job *job, const ps_commit *commit, uint64_t step, int64_t now_us,
                     int64_t wall_us);

/* Adds the change of nodes that ends an attempt (ps_commit_move). It was asked for at asked_wall_us
 * and begun at wall_us, with `step` steps finished, or as many as the job's progress says if these
 * are more. The caller adds node_ids to the recovery that is returned. */
Psgd__V1__Recovery *ps_recovery_add_move(Psgd__V1__Job *job, const ps_commit *commit, uint64_t step,
                                         int64_t asked_wall_us, int64_t wall_us);

/* Adds the loss of a member without which the attempt goes on (PS_COMMIT_SPARED). `step`: number of
 * steps that were finished then. */
void ps_recovery_add_spared(Psgd__V1__Job *job, const ps_commit *commit, size_t node, uint64_t step,
                            int64_t now_us, int64_t wall_us);

/* Sets is_spared of those members without which the job's attempt goes on, as the job's recoveries
 * say. */
void ps_recovery_mark_spared(const Psgd__V1__Job *job, ps_member *members, size_t count);

/* Returns whether the job waits for an attempt that goes on after a loss or a change of nodes. */
bool ps_recovery_is_open(const Psgd__V1__Job *job);

/* Returns the largest of `step` and the steps that the job had finished at its open recoveries. */
uint64_t ps_recovery_step(const Psgd__V1__Job *job, uint64_t step);
/* Closes all open recoveries, because an attempt that began at `from_step` trains now. Counts how
 * much of the attempt before was useful. */
void ps_recovery_close(Psgd__V1__Job *job, uint64_t from_step, int64_t wall_us);

/* Returns whether the last PS_ALIKE_MAX recoveries were all of failures, without a lost node, a
 * divergence or a change of nodes, and no later one came further than the first of them. Losses
 * that an attempt survived are left out. */
enum { PS_ALIKE_MAX = 5 };
bool ps_recovery_fails_alike(const Psgd__V1__Job *job);

/* Returns the latest step that the checkpoint may have from which the next attempt begins after a
 * divergence. It is twice as far back as at the last rollback, because a checkpoint shortly before
 * a divergence may have weights that have grown too large. UINT64_MAX: any checkpoint. */
uint64_t ps_recovery_rollback_limit(const Psgd__V1__Job *job);

/* Returns the fraction, 0 to 1, of the time since the job first trained that was useful; *useful_s,
 * which may be NULL, becomes the useful time in seconds. Before the job has trained, returns 1 and
 * leaves *useful_s. */
double ps_recovery_goodput(const Psgd__V1__Job *job, int64_t wall_us, double *useful_s);

/* Sets useful_seconds and goodput of a job that ends now, if it has trained. */
void ps_recovery_sum_up(Psgd__V1__Job *job, int64_t wall_us);

#endif
