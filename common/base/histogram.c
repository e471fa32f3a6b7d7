/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c - see histogram.h. */
#include "common/base/histogram.h"

const int64_t ps_histogram_edges_us[PS_HISTOGRAM_EDGES] = {
    100,    300,     1000,    3000,     10000,    30000,     100000,
    300000, 1000000, 3000000, 10000000, 30000000, 100000000, 300000000};

void ps_histogram_add(ps_histogram *histogram, int64_t us)
{
    int i = 0;

    us = us > 0 ? us : 0;
    while (i < PS_HISTOGRAM_EDGES && us > ps_histogram_edges_us[i]) {
        i++;
    }
    atomic_fetch_add_explicit(&histogram->counts[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_us, (uint64_t)us, memory_order_relaxed);
}
