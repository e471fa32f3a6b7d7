/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h - a model's outputs as the loss reads them: probabilities, values, scores of a
 * class. In double, the same bits on every host. For common/metric alone.
 */
#ifndef PS_COMMON_METRIC_OUTPUTS_H
#define PS_COMMON_METRIC_OUTPUTS_H

#include "common/metric/metric.h"

/* log(sum of e^y_j) over the row, of the outputs but `without` (PS_OUTPUTS_ALL: of all). */
double ps_outputs_log_sum(const float *row, size_t width, size_t without);
#define PS_OUTPUTS_ALL SIZE_MAX

/* p (width): softmax(y), sigmoid(y) or y. */
void ps_outputs_read(ps_output_link link, const float *row, size_t width, double *p);

/* How much the row speaks for class `positive`: the logit of its probability, or, where
 * outputs are values, the output; of a single output, that one. Higher is more positive,
 * whatever the other samples are. */
double ps_outputs_score(ps_output_link link, const float *row, size_t width, size_t positive);
/* The score of that probability, or value. 0 < p < 1 where outputs are logits. */
double ps_outputs_score_of(ps_output_link link, double p);

/* Whether sample i is of class `positive`; of one value a sample, whether that is above 1/2. */
bool ps_targets_positive(const ps_targets *targets, size_t i, size_t positive);

#endif
