/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - what time it is; asked by shells of services, told to state machines. */
#ifndef PS_COMMON_BASE_CLOCK_H
#define PS_COMMON_BASE_CLOCK_H

#include <stdint.h>

/* Monotonic time in microseconds: for deadlines and durations. Means nothing
 * in another process. Any thread. */
int64_t ps_clock_us(void);

/* Microseconds since 1970-01-01 UTC: for what people and other hosts read. May
 * jump. Any thread. */
int64_t ps_clock_wall_us(void);

#endif
