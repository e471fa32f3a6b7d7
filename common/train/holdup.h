/* SPDX-License-Identifier: Apache-2.0 */
/* holdup.h - delays a trainer as the job's straggler says (common/straggler).
 *
 * The time that a worker computes in a step is taken as the time since its last delay, minus the
 * time for which it waited for others.
 */
#ifndef PS_COMMON_TRAIN_HOLDUP_H
#define PS_COMMON_TRAIN_HOLDUP_H

#include "common/job/plan.h"
#include "common/train/gate.h"

typedef struct ps_holdup {
    bool has_begun;
    uint64_t step; /* step of the last delay */
    int64_t at_us; /* end of the last delay */
    int64_t waited_us;
} ps_holdup;

/* Waits as long as the straggler delays `rank` in `step`; only the first call of a step waits. Call
 * it on the trainer's thread between gradient and push. Returns false if the gate was stopped or
 * failed meanwhile. In the first step the computing time is unknown. */
bool ps_holdup_wait(ps_holdup *h, const ps_plan *plan, uint32_t rank, uint64_t step, ps_gate *gate);

#endif
