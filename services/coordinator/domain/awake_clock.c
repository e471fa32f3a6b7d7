/* SPDX-License-Identifier: Apache-2.0 */
/* awake_clock.c - see awake_clock.h. */
#include "services/coordinator/domain/awake_clock.h"

void ps_awake_init(ps_awake_clock *clock, int64_t monotonic_us)
{
    *clock = (ps_awake_clock){.read_us = monotonic_us};
}

int64_t ps_awake_now_us(ps_awake_clock *clock, int64_t monotonic_us)
{
    int64_t pause_us = monotonic_us - clock->read_us;

    if (pause_us > PS_AWAKE_PAUSE_US) {
        clock->away_us += pause_us - PS_AWAKE_PULSE_US;
    }
    clock->read_us = monotonic_us;
    return monotonic_us - clock->away_us;
}
