/* SPDX-License-Identifier: Apache-2.0 */
/* trace_clock.h - by how much the clock of this process differs from that of another, from round
 * trips to it.
 *
 * The other reads its clock between the request and the answer, so the middle of the two is wrong
 * by half of the round trip at most. The shortest round trip is the best one; but clocks drift, so
 * one that is near in time is better than one long ago. A bounded number is kept, over any time.
 */
#ifndef PS_COMMON_TRACE_TRACE_CLOCK_H
#define PS_COMMON_TRACE_TRACE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { PS_TRACE_CLOCK_SAMPLES = 64 };

/* What a time of this process's clock is by the other's. */
typedef struct ps_trace_alignment {
    int64_t offset_ns; /* to be added */
    int64_t error_ns;  /* the sum is wrong by so much at most; negative: nothing is known */
} ps_trace_alignment;

/* All zeros: no round trip so far. */
typedef struct ps_trace_clock {
    struct {
        int64_t at_ns, offset_ns, error_ns;
    } samples[PS_TRACE_CLOCK_SAMPLES]; /* (count), oldest first: each the best of `stride` trips */
    size_t count;
    uint64_t stride; /* of all samples but the last, */
    uint64_t trips;  /* which is the best of so many */
} ps_trace_clock;

/* Adds a round trip: this process's clock at its beginning and end, and the other's between. A trip
 * that ends before it begins is left out. */
void ps_trace_clock_add(ps_trace_clock *clock, int64_t sent_ns, int64_t theirs_ns, int64_t got_ns);

/* Returns the alignment of the time at_ns. */
ps_trace_alignment ps_trace_clock_at(const ps_trace_clock *clock, int64_t at_ns);

#endif
