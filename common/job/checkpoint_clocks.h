/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_clocks.h - the checkpoints of a job as its plan has them: at which clocks they are
 * due, and what their files are called. Pure; any thread. */
#ifndef PS_COMMON_JOB_CHECKPOINT_CLOCKS_H
#define PS_COMMON_JOB_CHECKPOINT_CLOCKS_H

#include "common/job/plan.h"

/* Most checkpoints in a row of which each has only the rows that changed since the one before. */
enum { PS_CHECKPOINT_CHANGES_MAX = 8 };

/* Returns the first clock after `clock` at which the job's steps have reached another multiple of
 * spec.checkpoint.every_steps; 0: there is none before the end of the job, or the job has no
 * checkpoints by steps. */
uint64_t ps_checkpoint_next(const ps_plan *plan, uint64_t clock);

/* Returns the last clock up to `clock` at which the job's steps have reached another multiple of
 * spec.checkpoint.every_steps; 0: there is none, or the job has no checkpoints by steps. */
uint64_t ps_checkpoint_last(const ps_plan *plan, uint64_t clock);

/* Returns how many steps a worker has taken when `clock` clocks are over; at most the job's
 * total_steps. */
uint64_t ps_checkpoint_step(const ps_plan *plan, uint64_t clock);

/* Returns the first clock at whose beginning a worker has taken at least `step` steps. */
uint64_t ps_checkpoint_clock(const ps_plan *plan, uint64_t step);

enum { PS_CHECKPOINT_NAME_MAX = 40 };

/* Writes the name of the file with the state of a server's thread. */
void ps_checkpoint_store_name(char out[PS_CHECKPOINT_NAME_MAX], uint32_t server, uint32_t thread);

/* Writes the name of the file with the state of a rank. */
void ps_checkpoint_rank_name(char out[PS_CHECKPOINT_NAME_MAX], uint32_t rank);
/* Writes the name of the file with the newest contributions of a rank, which it keeps so that a
 * lost server's state can be computed anew (ps_plan_kept_bytes). */
void ps_checkpoint_kept_name(char out[PS_CHECKPOINT_NAME_MAX], uint32_t rank);

#endif
