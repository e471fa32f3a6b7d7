/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation.h - a pass over samples: the loss of a model, and the metrics of a plan.
 *
 * Sums are exact, and tallies do not depend on the order of samples. So evaluations of parts of a
 * set merge to the bits of the whole, if the parts consist of the same batches as the whole: the
 * last bits of a model's outputs may depend on the number of samples in a batch. One thread at a
 * time. */
#ifndef PS_COMMON_TRAIN_EVALUATION_H
#define PS_COMMON_TRAIN_EVALUATION_H

#include "common/job/plan.h"
#include "common/metric/tally.h"

typedef struct ps_evaluation {
    const ps_plan *plan; /* kept */
    ps_exact_sum loss;
    uint64_t samples;
    ps_tally tallies[PS_METRICS_MAX]; /* (plan->metric_count) */
} ps_evaluation;

void ps_evaluation_init(ps_evaluation *e, const ps_plan *plan); /* begins without samples */
void ps_evaluation_fini(ps_evaluation *e);                      /* a zeroed struct is allowed */
void ps_evaluation_clear(ps_evaluation *e);

/* Adds n samples x (n, features) with their targets; n is at most the model's batch. Returns the
 * sum of their losses. */
double ps_evaluation_add(ps_evaluation *e, ps_model *model, const float *weights, const float *x,
                         ps_targets targets, size_t n);

/* Converts one sample's outputs of the model to what the loss takes them for, in p (plan->outputs):
 * probabilities if the outputs are logits, else the outputs themselves. */
void ps_evaluation_read(const ps_plan *plan, const float *row, double *p);

/* Returns the class that a sample's outputs predict, by the rule of the metric accuracy; -1 if an
 * output is NaN. */
int64_t ps_evaluation_class(const ps_plan *plan, const float *row);

/* Returns whether worker `rank` evaluates batch number `batch` of the test set. True for all
 * batches if the job does not split evaluations. */
bool ps_evaluation_has(const ps_plan *plan, uint32_t rank, uint32_t batch);

/* Adds the samples of another evaluation of the same plan. */
void ps_evaluation_merge(ps_evaluation *e, const ps_evaluation *other);

/* Return the number of bytes of an evaluation as a part, and write it: the loss (exact_sum.h), the
 * number of samples, then for each metric the length of its tally and the tally (tally.h). Lengths
 * and counts have 8 bytes, little-endian. */
size_t ps_evaluation_bytes(ps_evaluation *e);
void ps_evaluation_write(ps_evaluation *e, uint8_t *bytes);
/* Adds an evaluation of the same plan that ps_evaluation_write has written. Returns DATA_LOSS, and
 * leaves e unchanged, if the bytes are wrong. */
PS_MUST_USE ps_status ps_evaluation_merge_part(ps_evaluation *e, const uint8_t *bytes, size_t len);

/* Return the mean loss, and write the metrics to values (plan->metric_count), over all samples
 * added so far; NaN without samples. */
double ps_evaluation_loss(const ps_evaluation *e);
void ps_evaluation_values(ps_evaluation *e, double *values);

#endif
