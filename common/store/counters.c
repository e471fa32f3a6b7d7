/* SPDX-License-Identifier: Apache-2.0 */
/* counters.c - see counters.h. */
#include "common/store/counters.h"

#include <stddef.h>

void ps_store_counters_add(ps_store_counters *sum, const ps_store_counters *c)
{
    sum->applied += c->applied;
    sum->duplicates += c->duplicates;
    sum->dropped += c->dropped;
    sum->refused += c->refused;
    sum->late += c->late;
    sum->left_out += c->left_out;
    if (c->staleness_max > sum->staleness_max) {
        sum->staleness_max = c->staleness_max;
    }
    sum->staleness_sum += c->staleness_sum;
    sum->staleness_count += c->staleness_count;
    for (size_t b = 0; b < PS_STALENESS_BINS; b++) {
        sum->staleness_bins[b] += c->staleness_bins[b];
    }
    sum->steps += c->steps;
    sum->bytes_in += c->bytes_in;
    sum->f32_bytes_in += c->f32_bytes_in;
    sum->parked_now += c->parked_now;
    sum->parked_bytes_now += c->parked_bytes_now;
    sum->parked_total += c->parked_total;
    sum->parked_bytes_peak += c->parked_bytes_peak;
    sum->pool_bytes += c->pool_bytes;
    sum->encoded += c->encoded;
    sum->encoded_bytes += c->encoded_bytes;
    sum->given += c->given;
    sum->bytes_out += c->bytes_out;
    sum->f32_bytes_out += c->f32_bytes_out;
}
