/* SPDX-License-Identifier: Apache-2.0 */
/* holdup.h - holds a trainer up as the job says (common/straggler).
 *
 * What a worker computes in a step is taken to be the time since it was held up
 * last, less what it waited for others since.
 */
#ifndef PS_COMMON_TRAIN_HOLDUP_H
#define PS_COMMON_TRAIN_HOLDUP_H

#include "common/job/plan.h"
#include "common/train/gate.h"

typedef struct ps_holdup {
    bool has_begun;
    uint64_t step; /* held up last */
    int64_t at_us; /* when that was over */
    int64_t waited_us;
} ps_holdup;

/* Trainer, between gradient and push: waits what `rank` has to in `step`, once a
 * step; false when the gate was closed meanwhile. Of the first step it does not
 * know how long it took. */
bool ps_holdup_wait(ps_holdup *h, const ps_plan *plan, uint32_t rank, uint64_t step, ps_gate *gate);

#endif
