/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h - what a store has counted since it was created. A saved store does not contain
 * them. */
#ifndef PS_COMMON_STORE_COUNTERS_H
#define PS_COMMON_STORE_COUNTERS_H

#include <stdint.h>

enum { PS_STALENESS_BINS = 20 };

typedef struct ps_store_counters {
    /* Contributions. Each counts once for each slice of a dense variable, and once more for the
     * rows of all sparse tables together. A contribution of rows of a fixed vocabulary counts once
     * for each slice of the vocabulary. `refused` counts calls that failed. */
    uint64_t applied, duplicates, dropped, refused;
    /* of `applied`: contributions to a closed clock that were added to the open sum */
    uint64_t late;
    uint64_t left_out; /* contributions that never come, because their workers skipped the clock */
    /* Staleness of an applied contribution: how often its slice, or the rows, were updated between
     * the worker's last pull of it and the arrival of the contribution; 0 under bsp. */
    uint64_t staleness_max, staleness_sum, staleness_count;
    /* applied contributions of staleness 0, 1, 2-3, 4-7, ...; the last bin has no upper end */
    uint64_t staleness_bins[PS_STALENESS_BINS];

    /* The counters from here on are of dense slices only, not of rows. */
    uint64_t steps; /* updates of a slice, added over the slices */
    /* encoded contributions in bytes, repetitions and dropped ones included, refused ones not */
    uint64_t bytes_in;
    uint64_t f32_bytes_in; /* what bytes_in would be if contributions came as float32 */
    uint64_t parked_now, parked_bytes_now, parked_total, parked_bytes_peak;
    uint64_t pool_bytes;             /* memory allocated for parking, in use or not */
    uint64_t encoded, encoded_bytes; /* snapshots that were made, and their bytes */
    uint64_t given, bytes_out;       /* slices that answered pulls, and their bytes */
    uint64_t f32_bytes_out;          /* what bytes_out would be if answers were float32 */
} ps_store_counters;

/* Adds the counters c, of another store of the same job, to *sum. */
void ps_store_counters_add(ps_store_counters *sum, const ps_store_counters *c);

/* Contributions of one worker, counted by slice as in ps_store_counters. */
typedef struct ps_worker_counters {
    uint64_t applied, dropped, left_out;
} ps_worker_counters;

#endif
