/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - the state of a metric over the samples so far; see metric.h. One thread at a time. */
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
    uint64_t samples;                /* number of samples added */
    uint64_t count[PS_TALLY_COUNTS]; /* (metric->counts) */
    ps_exact_sum sum[PS_TALLY_SUMS]; /* (metric->sums) */
    ps_ranking ranking;              /* used if metric->ranks */
    double *p; /* (O): outputs of one sample as the loss reads them; scratch of the metric's add */
} ps_tally;

/* Initialises an empty tally. The metric must fit the facts (ps_metric_fits); asserted. */
void ps_tally_init(ps_tally *tally, const ps_metric *metric, const ps_params *params,
                   const ps_metric_facts *facts);
/* Frees the memory. A tally of zeros is allowed. */
void ps_tally_fini(ps_tally *tally);
/* Empties the tally and keeps its metric, numbers and facts. */
void ps_tally_clear(ps_tally *tally);

/* Adds n samples: y (n, O) and their targets. Classes must be below facts.classes. */
void ps_tally_add(ps_tally *tally, const float *y, ps_targets t, size_t n);

/* Adds all samples of `other`, which must have the same metric, numbers and facts; only the
 * metric is asserted. The result does not depend on the order. */
void ps_tally_merge(ps_tally *tally, const ps_tally *other);

/* Returns the metric's number; NaN without samples. Sorts the ranking, hence not const. */
double ps_tally_value(ps_tally *tally);

/* Returns the size of the tally when serialised. Sorts the ranking. */
size_t ps_tally_bytes(ps_tally *tally);
/* Serialises the tally to ps_tally_bytes bytes. Equal samples give equal bytes, in any order. */
void ps_tally_write(ps_tally *tally, uint8_t *bytes);
/* Replaces the values of the tally by those that ps_tally_write has written of a tally of the same
 * metric. Returns DATA_LOSS if the bytes are not of that form; the tally is then unchanged. */
PS_MUST_USE ps_status ps_tally_read(ps_tally *tally, const uint8_t *bytes, size_t len);

#endif
