/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - reads the time. State machines do not call it; their callers pass the time in. */
#ifndef PS_COMMON_BASE_CLOCK_H
#define PS_COMMON_BASE_CLOCK_H

#include <stdint.h>

/* Returns monotonic time in microseconds, for deadlines and durations. Its zero point is arbitrary
 * and differs between hosts. Any thread. */
int64_t ps_clock_us(void);

/* Returns the time of ps_clock_us in nanoseconds. Any thread. */
int64_t ps_clock_ns(void);

/* Returns the processor time that the calling thread has used, in microseconds. */
int64_t ps_clock_thread_us(void);

/* Returns microseconds since 1970-01-01 UTC, for people and other hosts. May jump. Any thread. */
int64_t ps_clock_wall_us(void);

#endif
