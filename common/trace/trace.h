/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - records what threads do in some steps of a job.
 *
 * A thread records into a ring of its own, without locks: it is the only writer of the ring, and
 * one collector reads it. A thread that has no ring, or is outside of the steps to record, has
 * ps_trace_here == NULL; then a record costs one test of that pointer and no reading of the clock.
 * A full ring keeps what it has and counts what it loses, so a slow collector stops nobody.
 */
#ifndef PS_COMMON_TRACE_TRACE_H
#define PS_COMMON_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of records: constant, name in the timeline's file, category, what `number` is. (A
 * record is shown as what the file format calls a slice; DECODE, SUM and APPLY are about slices of
 * variables.) */
#define PS_TRACE_KINDS(X)                                                                          \
    X(STEP, "step", "worker", "")                                                                  \
    X(DATA, "data", "worker", "block")                                                             \
    X(FORWARD, "forward", "worker", "layer")                                                       \
    X(BACKWARD, "backward", "worker", "layer")                                                     \
    X(WAIT, "wait", "worker", "")                                                                  \
    X(ENCODE, "encode", "worker", "slice")                                                         \
    X(SEND, "send", "worker", "part")                                                              \
    X(TAKE, "decode", "worker", "part")                                                            \
    X(EVALUATE, "evaluate", "worker", "")                                                          \
    X(DECODE, "decode", "server", "slice")                                                         \
    X(SUM, "sum", "server", "slice")                                                               \
    X(APPLY, "step", "server", "slice")                                                            \
    X(SERVE, "serve", "server", "rank")                                                            \
    X(AWAIT, "wait", "server", "")

typedef enum ps_trace_kind {
#define PS_TRACE_ENUM(constant, name, category, number) PS_TRACE_##constant,
    PS_TRACE_KINDS(PS_TRACE_ENUM)
#undef PS_TRACE_ENUM
        PS_TRACE_KIND_COUNT
} ps_trace_kind;

/* Most records of a ring, 3 MiB of memory. */
enum { PS_TRACE_RECORDS = 65536 };

typedef struct ps_trace_record {
    int64_t begin_ns, end_ns; /* monotonic nanoseconds (ps_trace_now_ns) */
    uint64_t step;            /* number of the step, from 1, in which it was recorded */
    /* of WAIT and AWAIT: bits (ps_trace_whom) of the servers or workers that are waited for; of
     * SEND, TAKE and APPLY: the step to which the bytes belong */
    uint64_t detail;
    const char *what; /* constant text, such as the kind of a layer; NULL: none */
    uint32_t number;  /* what PS_TRACE_KINDS says: number of a layer, a slice, ... */
    uint32_t kind;    /* ps_trace_kind */
} ps_trace_record;

/* Returns the bit that stands for server or worker i in `detail` of WAIT and AWAIT. Bit 63 stands
 * for all from 63 on. */
static inline uint64_t ps_trace_whom(uint32_t i)
{
    return UINT64_C(1) << (i < 63 ? i : 63);
}

typedef struct ps_trace_ring ps_trace_ring;

/* The ring of this thread while it records, else NULL. */
extern _Thread_local ps_trace_ring *ps_trace_here;

/* Most steps that a ring can be set to record. */
enum { PS_TRACE_STEPS_MAX = 10000 };

/* Creates a ring that records `steps` steps, up to PS_TRACE_STEPS_MAX, from `from_step` on, counted
 * from 1. With 0 steps it records nothing and has no memory for records. */
ps_trace_ring *ps_trace_ring_create(uint64_t from_step, uint64_t steps);
/* Frees the ring. No thread may be recording into it. NULL is allowed. */
void ps_trace_ring_destroy(ps_trace_ring *ring);

/* Forgets the ring's records, and makes it record these steps from now on; 0 steps: none. May be
 * called at any time, by one thread at a time, while nobody takes records. The writer notices when
 * it begins a step. */
void ps_trace_ring_set(ps_trace_ring *ring, uint64_t from_step, uint64_t steps);
/* Returns whether the ring, which may be NULL, has steps to record. Any thread. */
bool ps_trace_is_on(const ps_trace_ring *ring);

/* Makes this thread record into `ring` if `step` is one of its steps, else stop recording. NULL
 * stops recording. The thread is the only writer of the ring. */
void ps_trace_enter(ps_trace_ring *ring, uint64_t step);

/* Moves up to `max` records to out[0..max), the oldest first, and returns their number. The
 * collector calls it, one thread at a time, while the writer may go on. */
size_t ps_trace_take(ps_trace_ring *ring, ps_trace_record *out, size_t max);
/* Returns when the oldest record of the ring began; 0: it has none. The collector's thread. */
int64_t ps_trace_first_ns(const ps_trace_ring *ring);
/* Returns how many records did not fit since the steps were set. Any thread. */
uint64_t ps_trace_lost(const ps_trace_ring *ring);

/* Returns monotonic time in nanoseconds. */
int64_t ps_trace_now_ns(void);
/* Appends a record of this thread, which must be recording (ps_trace_here), from begin_ns until
 * now. */
void ps_trace_add(ps_trace_kind kind, int64_t begin_ns, uint32_t number, const char *what,
                  uint64_t detail);

/* Appends a record as ps_trace_add does, but one that ends at end_ns. For a duration that is also
 * counted elsewhere, so that both are equal. */
void ps_trace_add_until(ps_trace_kind kind, int64_t begin_ns, int64_t end_ns, uint32_t number,
                        const char *what, uint64_t detail);

/* Returns the present time, for the beginning of a record; 0 if this thread does not record. */
static inline int64_t ps_trace_begin(void)
{
    return __builtin_expect(ps_trace_here != NULL, 0) ? ps_trace_now_ns() : 0;
}

/* Appends the record that began at begin_ns (ps_trace_begin). Does nothing if this thread does not
 * record, or did not record at that time. */
static inline void ps_trace_end(ps_trace_kind kind, int64_t begin_ns, uint32_t number,
                                const char *what)
{
    if (__builtin_expect(begin_ns != 0, 0) && ps_trace_here != NULL) {
        ps_trace_add(kind, begin_ns, number, what, 0);
    }
}

/* Appends a record as ps_trace_end does, but with a detail and without a text. */
static inline void ps_trace_end_of(ps_trace_kind kind, int64_t begin_ns, uint32_t number,
                                   uint64_t detail)
{
    if (__builtin_expect(begin_ns != 0, 0) && ps_trace_here != NULL) {
        ps_trace_add(kind, begin_ns, number, NULL, detail);
    }
}

#endif
