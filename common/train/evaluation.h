/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation.h - a pass over samples: the loss of a model, and a plan's metrics.
 *
 * Sums are exact and tallies know no order, so evaluations of parts of a set
 * merge to the bits of the whole, if the parts are cut between the same
 * batches: a model's outputs may depend in their last bits on how many samples it
 * is given at once. One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_EVALUATION_H
#define PS_COMMON_TRAIN_EVALUATION_H

#include "common/job/plan.h"
#include "common/metric/tally.h"

enum { PS_EVALUATION_BATCH = 250 }; /* samples at once */

typedef struct ps_evaluation {
    const ps_plan *plan; /* kept */
    ps_exact_sum loss;
    uint64_t samples;
    ps_tally tallies[PS_METRICS_MAX]; /* (plan->metric_count) */
} ps_evaluation;

void ps_evaluation_init(ps_evaluation *e, const ps_plan *plan); /* empty */
void ps_evaluation_fini(ps_evaluation *e);                      /* of zeros too */
void ps_evaluation_clear(ps_evaluation *e);

/* n <= the model's batch samples: x (n, features) and their targets. */
void ps_evaluation_add(ps_evaluation *e, ps_model *model, const float *weights, const float *x,
                       ps_targets targets, size_t n);

/* Means over the samples; NaN without any. values is (plan->metric_count). */
double ps_evaluation_loss(const ps_evaluation *e);
void ps_evaluation_values(ps_evaluation *e, double *values);

#endif
