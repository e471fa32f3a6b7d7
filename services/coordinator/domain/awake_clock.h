/* SPDX-License-Identifier: Apache-2.0 */
/* awake_clock.h - time without that in which the process did not run.
 *
 * A process that was frozen, or whose host slept, has not read what nodes sent meanwhile. Their
 * silence of that time must not count, so deadlines and leases go by this clock. Its owner reads it
 * at least every PS_AWAKE_PULSE_US, by a timer. Pauses above PS_AWAKE_PAUSE_US are left out. Pure.
 */
#ifndef PS_COORDINATOR_AWAKE_CLOCK_H
#define PS_COORDINATOR_AWAKE_CLOCK_H

#include <stdint.h>

enum {
    PS_AWAKE_PULSE_US = 100000,
    PS_AWAKE_PAUSE_US = 1000000 /* a host that is merely busy pauses less */
};

typedef struct ps_awake_clock {
    int64_t read_us, away_us;
} ps_awake_clock;

void ps_awake_init(ps_awake_clock *clock, int64_t monotonic_us);

/* Returns the time of this clock; it never goes back. */
int64_t ps_awake_now_us(ps_awake_clock *clock, int64_t monotonic_us);

#endif
