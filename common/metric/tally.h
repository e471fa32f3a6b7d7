/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - what a metric has seen so far; see metric.h.
 *
 * One thread at a time.
 */
#ifndef PS_COMMON_METRIC_TALLY_H
#define PS_COMMON_METRIC_TALLY_H

#include "common/metric/exact_sum.h"
#include "common/metric/metric.h"
#include "common/metric/ranking.h"

enum { PS_TALLY_COUNTS = 1, PS_TALLY_SUMS = 2 };

typedef struct ps_tally {
    const ps_metric *metric;
    ps_params params;
    ps_metric_facts facts;
    uint64_t samples;
    uint64_t count[PS_TALLY_COUNTS];
    ps_exact_sum sum[PS_TALLY_SUMS];
    ps_ranking ranking;
    double *p; /* (O): a row as the loss reads it, for the metric's add */
} ps_tally;

/* An empty one. The metric must fit the facts; asserted. */
void ps_tally_init(ps_tally *tally, const ps_metric *metric, const ps_params *params,
                   const ps_metric_facts *facts);
void ps_tally_fini(ps_tally *tally); /* of zeros too */
void ps_tally_clear(ps_tally *tally);

/* n samples: y (n, O) and their targets, classes within the facts' classes. */
void ps_tally_add(ps_tally *tally, const float *y, ps_targets t, size_t n);

/* As if all of other's samples had been added, whatever the order. The same
 * metric, numbers and facts; asserted. */
void ps_tally_merge(ps_tally *tally, const ps_tally *other);

/* NaN without samples. May sort, hence not const. */
double ps_tally_value(ps_tally *tally);

/* The one form of what was seen, whatever the order; may sort. */
size_t ps_tally_bytes(ps_tally *tally);
void ps_tally_write(ps_tally *tally, uint8_t *bytes);
/* Replaces what was seen by what a tally of the same metric wrote. DATA_LOSS when it is no
 * such form; the tally is unchanged then. */
PS_MUST_USE ps_status ps_tally_read(ps_tally *tally, const uint8_t *bytes, size_t len);

#endif
