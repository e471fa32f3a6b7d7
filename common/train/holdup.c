/* SPDX-License-Identifier: Apache-2.0 */
/* holdup.c - see holdup.h. */
#include "common/train/holdup.h"

#include "common/base/clock.h"

bool ps_holdup_wait(ps_holdup *h, const ps_plan *plan, uint32_t rank, uint64_t step, ps_gate *gate)
{
    int64_t now_us, waited_us, busy_us = 0, us;
    bool open = true;

    if (h->has_begun && step == h->step) {
        return ps_gate_is_open(gate);
    }
    now_us = ps_clock_us();
    waited_us = ps_gate_waited_ns(gate) / 1000;
    if (h->has_begun) {
        busy_us = now_us - h->at_us - (waited_us - h->waited_us);
    }
    us = plan->straggler->delay_us(&plan->straggler_params, plan->spec->seed, rank, step, busy_us);
    if (us > 0) {
        open = ps_gate_pause(gate, us);
        now_us = ps_clock_us();
    }
    h->has_begun = true;
    h->step = step;
    h->at_us = now_us;
    h->waited_us = waited_us;
    return open;
}
