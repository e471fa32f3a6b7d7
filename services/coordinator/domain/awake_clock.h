/* SPDX-License-Identifier: Apache-2.0 */
/* awake_clock.h - a clock that stands still while the process does not run.
 *
 * A process that was frozen, or whose host slept, has not read what nodes sent meanwhile. The
 * silence of nodes during that time must not count, so deadlines and leases use this clock. Its
 * owner reads it at least every PS_AWAKE_PULSE_US, by a timer. If two readings are more than
 * PS_AWAKE_PAUSE_US apart, the time between them counts as PS_AWAKE_PULSE_US. Pure. */
#ifndef PS_COORDINATOR_AWAKE_CLOCK_H
#define PS_COORDINATOR_AWAKE_CLOCK_H

#include <stdint.h>

enum {
    PS_AWAKE_PULSE_US = 100000,
    PS_AWAKE_PAUSE_US = 1000000 /* longer than the pauses of a process on a busy host */
};

typedef struct ps_awake_clock {
    /* monotonic time of the last reading, and the time left out so far */
    int64_t read_us, away_us;
} ps_awake_clock;

void ps_awake_init(ps_awake_clock *clock, int64_t monotonic_us);

/* Returns the time of this clock; it never goes back. */
int64_t ps_awake_now_us(ps_awake_clock *clock, int64_t monotonic_us);

#endif
