/* SPDX-License-Identifier: Apache-2.0 */
/* trace_clock.c - see trace_clock.h. */
#include "common/trace/trace_clock.h"

/* Two clocks drift apart by 20 ns in a millisecond at most: quartz, without NTP. */
static const int64_t drift_divisor = 50000;

/* Halves the number of samples: of each two neighbours keeps the one with the smaller error. From
 * now on one sample is made of twice as many trips. */
static void thin(ps_trace_clock *clock)
{
    for (size_t i = 0; i < PS_TRACE_CLOCK_SAMPLES / 2; i++) {
        size_t other = 2 * i + 1;

        clock->samples[i] =
            clock->samples[clock->samples[other].error_ns < clock->samples[2 * i].error_ns ? other
                                                                                           : 2 * i];
    }
    clock->count = PS_TRACE_CLOCK_SAMPLES / 2;
    clock->stride *= 2;
}

void ps_trace_clock_add(ps_trace_clock *clock, int64_t sent_ns, int64_t theirs_ns, int64_t got_ns)
{
    int64_t error_ns = (got_ns - sent_ns + 1) / 2;

    if (got_ns < sent_ns) {
        return;
    }
    clock->stride = clock->stride == 0 ? 1 : clock->stride;
    if (clock->count == 0 || clock->trips >= clock->stride) {
        if (clock->count == PS_TRACE_CLOCK_SAMPLES) {
            thin(clock);
        }
        clock->samples[clock->count++].error_ns = INT64_MAX;
        clock->trips = 0;
    }
    clock->trips++;
    if (error_ns < clock->samples[clock->count - 1].error_ns) {
        clock->samples[clock->count - 1].at_ns = sent_ns;
        clock->samples[clock->count - 1].offset_ns = theirs_ns - (sent_ns + error_ns);
        clock->samples[clock->count - 1].error_ns = error_ns;
    }
}

ps_trace_alignment ps_trace_clock_at(const ps_trace_clock *clock, int64_t at_ns)
{
    ps_trace_alignment best = {.error_ns = -1};

    for (size_t i = 0; i < clock->count; i++) {
        int64_t away_ns = at_ns - clock->samples[i].at_ns;
        int64_t error_ns =
            clock->samples[i].error_ns + (away_ns < 0 ? -away_ns : away_ns) / drift_divisor;

        if (best.error_ns < 0 || error_ns < best.error_ns) {
            best.offset_ns = clock->samples[i].offset_ns;
            best.error_ns = error_ns;
        }
    }
    return best;
}
