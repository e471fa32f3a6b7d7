/* SPDX-License-Identifier: Apache-2.0 */
/* trace_clock.h - finds from round trips by how much the clock of this process differs from that of
 * another one.
 *
 * The other process reads its clock between the request and its answer. So if we assume that it
 * does so in the middle, the error is at most half of the round trip. The shortest round trip is
 * the best one. But clocks drift, so a round trip that is near in time is better than one long ago.
 * A bounded number of round trips is kept, over any time. */
#ifndef PS_COMMON_TRACE_TRACE_CLOCK_H
#define PS_COMMON_TRACE_TRACE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { PS_TRACE_CLOCK_SAMPLES = 64 };

/* Converts a time of this process's clock to the other's. */
typedef struct ps_trace_alignment {
    int64_t offset_ns; /* difference to add to a time of this process's clock */
    int64_t error_ns;  /* largest error of the sum; negative: nothing is known */
} ps_trace_alignment;

/* The round trips so far. A zeroed struct has none. */
typedef struct ps_trace_clock {
    /* (count): oldest first; each is the best of `stride` round trips */
    struct {
        int64_t at_ns, offset_ns, error_ns;
    } samples[PS_TRACE_CLOCK_SAMPLES];
    size_t count;
    uint64_t stride; /* round trips for each sample but the last */
    uint64_t trips;  /* round trips so far for the last sample */
} ps_trace_clock;

/* Adds a round trip: this process's clock at its beginning and its end, and the other's clock in
 * between. A round trip that ends before it begins is ignored. */
void ps_trace_clock_add(ps_trace_clock *clock, int64_t sent_ns, int64_t theirs_ns, int64_t got_ns);

/* Returns how to convert the time at_ns of this process's clock to the other's. */
ps_trace_alignment ps_trace_clock_at(const ps_trace_clock *clock, int64_t at_ns);

#endif
