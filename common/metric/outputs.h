/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h - a model's outputs as the loss reads them: probabilities, values, scores of a
 * class. Computed in double, with the same bits on every host. For common/metric and evaluations
 * alone. */
#ifndef PS_COMMON_METRIC_OUTPUTS_H
#define PS_COMMON_METRIC_OUTPUTS_H

#include "common/metric/metric.h"

/* Returns log(sum of e^y_j) over the outputs of a row, except output `without`. With
 * PS_OUTPUTS_ALL no output is left out. */
double ps_outputs_log_sum(const float *row, size_t width, size_t without);
#define PS_OUTPUTS_ALL SIZE_MAX

/* Writes softmax(y), sigmoid(y) or y of a row to p (width). */
void ps_outputs_read(ps_output_link link, const float *row, size_t width, double *p);

/* Returns the class that a row says: the index of its greatest output, the first of equals. A
 * single output says class 1 if it is above one half as the loss reads it. Returns
 * PS_OUTPUTS_NO_CLASS if an output is NaN. */
size_t ps_outputs_class(ps_output_link link, const float *row, size_t width);
#define PS_OUTPUTS_NO_CLASS SIZE_MAX

/* Returns the score of class `positive`: the logit of its probability, or the output itself if
 * outputs are values. A row with one output has that output as its score. A higher score is
 * more positive; scores of different samples are comparable. */
double ps_outputs_score(ps_output_link link, const float *row, size_t width, size_t positive);
/* Returns the score of an output that the loss reads as p: the logit of p if outputs are logits (0
 * < p < 1), else p itself. */
double ps_outputs_score_of(ps_output_link link, double p);

/* Returns whether sample i is of class `positive`; for target values, whether its value is
 * above 1/2. */
bool ps_targets_positive(const ps_targets *targets, size_t i, size_t positive);

#endif
