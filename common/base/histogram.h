/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h - counts durations by their length. Any thread; a zeroed one is empty. */
#ifndef PS_COMMON_BASE_HISTOGRAM_H
#define PS_COMMON_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { PS_HISTOGRAM_EDGES = 14 };

/* The upper edges of the classes in microseconds, ascending: 100 us to 300 s. */
extern const int64_t ps_histogram_edges_us[PS_HISTOGRAM_EDGES];

typedef struct ps_histogram {
    /* counts[i]: durations of at most edge i and more than edge i - 1; the last: more than all
     * edges */
    atomic_uint_fast64_t counts[PS_HISTOGRAM_EDGES + 1];
    atomic_uint_fast64_t sum_us;
} ps_histogram;

/* Counts a duration; a negative one as 0. */
void ps_histogram_add(ps_histogram *histogram, int64_t us);

#endif
