/* SPDX-License-Identifier: Apache-2.0 */
/* explain_times.h - from the timeline of a job (docs/trace.md) to where the time of a step goes on
 * each rank. No I/O, no clock. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_TIMES_H
#define PS_COMMON_EXPLAIN_EXPLAIN_TIMES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* What a worker does with its time. Encoding, sending and decoding go on beside the others, on a
 * thread of their own. */
typedef enum ps_explain_work {
    PS_WORK_DATA,
    PS_WORK_COMPUTE, /* forward and backward, without the waits within */
    PS_WORK_ENCODE,
    PS_WORK_SEND,
    PS_WORK_WAIT,
    PS_WORK_DECODE,
    PS_WORKS
} ps_explain_work;

typedef struct ps_explain_times {
    uint64_t steps;      /* whole steps of the rank in the timeline; 0: its times are not known */
    double ms[PS_WORKS]; /* milliseconds of a step for each kind of work, mean */
} ps_explain_times;

/* Returns "data", "compute" and so on. */
const char *ps_explain_work_name(ps_explain_work work);

/* Reads the times of ranks 0 to n - 1 into out[0..n). How long that takes depends on the number of
 * events and on n, not on numbers in the events. */
void ps_explain_times_read(const json_t *timeline, ps_explain_times *out, size_t n);

#endif
