/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - the bounds of a job beside its epochs: spec.stop_at, max_steps and max_seconds.
 *
 * max_steps is part of the plan (total_steps), so every worker ends at the same step by itself.
 * Where a job ends for one of the other two is agreed upon while it trains: all workers are held,
 * and end at the first clock that none of them has begun (common/train/gate.h). Pure; any thread.
 */
#ifndef PS_COMMON_JOB_STOP_H
#define PS_COMMON_JOB_STOP_H

#include "common/job/plan.h"

enum {
    PS_STOP_REASON_MAX = 16, /* bytes of a reason with its NUL */
    PS_STOP_TEXT_MAX = 200   /* bytes of a message with its NUL */
};

/* Why the workers of a job are held. */
typedef enum ps_stop_cause {
    PS_STOP_NONE,
    PS_STOP_GOAL,
    PS_STOP_SECONDS,
    /* a job whose rounds vary in length: its workers have taken all steps together */
    PS_STOP_ITERATIONS
} ps_stop_cause;

/* Returns whether an evaluation with this loss and these values, of the plan's metrics, is as good
 * as spec.stop_at. False if the job has none, or if the metric is not a number. */
bool ps_stop_is_reached(const ps_plan *plan, double loss, const double *values);

/* Returns whether all workers get the same values in an evaluation, so that each knows by itself
 * that stop_at is reached. */
bool ps_stop_is_common(const ps_plan *plan);

/* How a job ended. */
typedef struct ps_stop_end {
    /* PS_STOP_NONE: the workers were not held, or the coordinator no longer knows why */
    ps_stop_cause cause;
    uint64_t step;  /* step of the slowest worker */
    bool has_value; /* `value` is that of the metric of stop_at in the last evaluation */
    double value;
} ps_stop_end;

/* Writes which bound ended a job that is DONE: `reason` is for machines: "STOP_AT", "MAX_SECONDS",
 * "MAX_STEPS" or "", and `text` for people: "ended by max_steps at step 100 of 100". A value that
 * reaches stop_at counts as STOP_AT even if the job ended by its last step. Cause PS_STOP_NONE
 * before the last step counts as MAX_SECONDS unless rounds vary. `reason` is empty if the epochs
 * ended the job; `text` then says only that `value` has not reached stop_at, or is empty if the job
 * has no stop_at or `end` has no value. */
void ps_stop_describe(const ps_plan *plan, const ps_stop_end *end, char reason[PS_STOP_REASON_MAX],
                      char text[PS_STOP_TEXT_MAX]);

#endif
