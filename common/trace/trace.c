/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h: rings of records.
 *
 * `written` and `taken` are numbers of records and only grow; record n is at n % PS_TRACE_RECORDS.
 * The writer does not touch the records from `taken` to `written` - 1, which the collector may be
 * reading. If all places hold such records, it counts a new one as lost. */
#include "common/trace/trace.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { STEPS_BITS = 16 };

_Static_assert(PS_TRACE_STEPS_MAX < 1 << STEPS_BITS, "the number of steps fits into the window");

struct ps_trace_ring {
    /* first traced step, and in the low STEPS_BITS bits how many are traced: one word, so that a
     * reader gets two that belong together */
    _Atomic uint64_t window;
    uint64_t step; /* the last traced step that the writer has entered */
    _Atomic uint64_t written, taken, lost;
    ps_trace_record *records; /* (PS_TRACE_RECORDS); NULL: no steps were ever to be traced */
};

_Thread_local ps_trace_ring *ps_trace_here = NULL;

ps_trace_ring *ps_trace_ring_create(uint64_t from_step, uint64_t steps)
{
    ps_trace_ring *ring = ps_xcalloc(1, sizeof *ring);

    if (steps > 0) {
        ps_trace_ring_set(ring, from_step, steps);
    }
    return ring;
}

void ps_trace_ring_set(ps_trace_ring *ring, uint64_t from_step, uint64_t steps)
{
    assert(steps <= PS_TRACE_STEPS_MAX);
    if (ring->records == NULL && steps > 0) {
        ring->records = ps_xcalloc(PS_TRACE_RECORDS, sizeof *ring->records);
    }
    atomic_store_explicit(&ring->taken, atomic_load_explicit(&ring->written, memory_order_acquire),
                          memory_order_release);
    atomic_store_explicit(&ring->lost, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->window, from_step << STEPS_BITS | steps, memory_order_release);
}

bool ps_trace_is_on(const ps_trace_ring *ring)
{
    return ring != NULL && atomic_load_explicit(&ring->window, memory_order_relaxed) != 0;
}

void ps_trace_ring_destroy(ps_trace_ring *ring)
{
    if (ring != NULL) {
        free(ring->records);
        free(ring);
    }
}

void ps_trace_enter(ps_trace_ring *ring, uint64_t step)
{
    uint64_t window = ring != NULL ? atomic_load_explicit(&ring->window, memory_order_acquire) : 0;
    uint64_t from_step = window >> STEPS_BITS, steps = window & ((1u << STEPS_BITS) - 1);
    bool records = step >= from_step && step - from_step < steps;

    if (records) {
        ring->step = step;
    }
    ps_trace_here = records ? ring : NULL;
}

int64_t ps_trace_now_ns(void)
{
    return ps_clock_ns();
}

void ps_trace_add(ps_trace_kind kind, int64_t begin_ns, uint32_t number, const char *what,
                  uint64_t detail)
{
    ps_trace_add_until(kind, begin_ns, ps_trace_now_ns(), number, what, detail);
}

void ps_trace_add_until(ps_trace_kind kind, int64_t begin_ns, int64_t end_ns, uint32_t number,
                        const char *what, uint64_t detail)
{
    ps_trace_ring *ring = ps_trace_here;
    uint64_t n = atomic_load_explicit(&ring->written, memory_order_relaxed);

    if (n - atomic_load_explicit(&ring->taken, memory_order_acquire) >= PS_TRACE_RECORDS) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
        return;
    }
    ring->records[n % PS_TRACE_RECORDS] = (ps_trace_record){.begin_ns = begin_ns,
                                                            .end_ns = end_ns,
                                                            .step = ring->step,
                                                            .detail = detail,
                                                            .what = what,
                                                            .number = number,
                                                            .kind = kind};
    atomic_store_explicit(&ring->written, n + 1, memory_order_release);
}

size_t ps_trace_take(ps_trace_ring *ring, ps_trace_record *out, size_t max)
{
    uint64_t from = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(&ring->written, memory_order_acquire);
    size_t n = 0;

    while (from + n < to && n < max) {
        out[n] = ring->records[(from + n) % PS_TRACE_RECORDS];
        n++;
    }
    atomic_store_explicit(&ring->taken, from + n, memory_order_release);
    return n;
}

int64_t ps_trace_first_ns(const ps_trace_ring *ring)
{
    uint64_t from = atomic_load_explicit(&ring->taken, memory_order_relaxed);

    return atomic_load_explicit(&ring->written, memory_order_acquire) > from
               ? ring->records[from % PS_TRACE_RECORDS].begin_ns
               : 0;
}

uint64_t ps_trace_lost(const ps_trace_ring *ring)
{
    return atomic_load_explicit(&ring->lost, memory_order_relaxed);
}
