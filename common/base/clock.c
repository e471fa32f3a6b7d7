/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h. */
#include "common/base/clock.h"

#include <assert.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec ts;
    int rc = clock_gettime(id, &ts);

    assert(rc == 0);
    (void)rc;
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t ps_clock_us(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t ps_clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t ps_clock_wall_us(void)
{
    return read_ns(CLOCK_REALTIME) / 1000;
}

int64_t ps_clock_thread_us(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID) / 1000;
}
