/* SPDX-License-Identifier: Apache-2.0 */
/* holdup.h - delays a trainer as the job's straggler says (common/straggler).
 *
 * The computing time of a step is measured as the time since the last delay ended, minus the time
 * for which the worker waited for others in between. */
#ifndef PS_COMMON_TRAIN_HOLDUP_H
#define PS_COMMON_TRAIN_HOLDUP_H

#include "common/job/plan.h"
#include "common/train/gate.h"

/* The state of one worker's delays; zeros at first. */
typedef struct ps_holdup {
    bool has_begun;
    uint64_t step;     /* the step in which the last delay was */
    int64_t at_us;     /* monotonic time in microseconds at which the last delay ended */
    int64_t waited_us; /* the gate's waiting time at that moment, in microseconds */
} ps_holdup;

/* Waits as long as the straggler delays `rank` in `step`. Only the first call of a step waits. Call
 * it on the trainer's thread between gradient and push. In the first step the computing time is
 * unknown, so a straggler that multiplies it adds nothing. Returns false if the gate was stopped or
 * has failed meanwhile. */
bool ps_holdup_wait(ps_holdup *h, const ps_plan *plan, uint32_t rank, uint64_t step, ps_gate *gate);

#endif
