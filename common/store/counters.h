/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h - the counters of a store, from its creation on. A saved store does not have them. */
#ifndef PS_COMMON_STORE_COUNTERS_H
#define PS_COMMON_STORE_COUNTERS_H

#include <stdint.h>

enum { PS_STALENESS_BINS = 20 };

typedef struct ps_store_counters {
    /* Contributions, counted by column of the book of clocks (clocks.h): by slice, and once for
     * the rows of all sparse tables. */
    uint64_t applied, duplicates, dropped, refused;
    uint64_t late;     /* applied contributions that were added to the sum of a later clock */
    uint64_t left_out; /* contributions that will never come: their workers skipped the clock */
    /* Staleness of a contribution: updates that its column has seen between being given to the
     * worker and the contribution's own; 0 under bsp. */
    uint64_t staleness_max, staleness_sum, staleness_count;
    uint64_t staleness_bins[PS_STALENESS_BINS]; /* 0, 1, 2-3, 4-7, ...; the last has no end */

    /* Of dense slices. */
    uint64_t steps;        /* updates of a slice */
    uint64_t bytes_in;     /* of encoded contributions, without refused ones */
    uint64_t f32_bytes_in; /* what bytes_in would be as float32 */
    uint64_t parked_now, parked_bytes_now, parked_total, parked_bytes_peak;
    uint64_t pool_bytes;             /* allocated for parking, in use or not */
    uint64_t encoded, encoded_bytes; /* snapshots made */
    uint64_t given, bytes_out;       /* pieces handed out */
    uint64_t f32_bytes_out;          /* what bytes_out would be as float32 */
} ps_store_counters;

/* Adds what another store of the same job has counted. */
void ps_store_counters_add(ps_store_counters *sum, const ps_store_counters *c);

/* Contributions of one worker, counted as above. */
typedef struct ps_worker_counters {
    uint64_t applied, dropped, left_out;
} ps_worker_counters;

#endif
