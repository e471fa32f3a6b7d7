/* SPDX-License-Identifier: Apache-2.0 */
/* confusion.c - counts of the confusion matrix: true_positives, false_positives,
 * true_negatives, false_negatives. A sample is predicted positive if its probability, or value,
 * is above the threshold; a NaN is not. */
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

enum { THRESHOLD = PS_METRIC_POSITIVE + 1 };

static const ps_param confusion_params[] = {
    PS_METRIC_POSITIVE_LINE,
    {.name = "threshold",
     .value = 0.5,
     .min = 1e-6,
     .max = 1 - 1e-6,
     .help = "p above it means positive"},
    {.name = NULL},
};

static void count(ps_tally *tally, const float *y, ps_targets t, size_t n, bool said, bool is)
{
    size_t width = tally->facts.outputs, positive = (size_t)tally->params.v[PS_METRIC_POSITIVE];
    double middle = ps_outputs_score_of(tally->facts.link, tally->params.v[THRESHOLD]);

    for (size_t i = 0; i < n; i++) {
        double score = ps_outputs_score(tally->facts.link, y + i * width, width, positive);

        tally->count[0] += (score > middle) == said && ps_targets_positive(&t, i, positive) == is;
    }
}

static void true_positives_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    count(tally, y, t, n, true, true);
}

static void false_positives_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    count(tally, y, t, n, true, false);
}

static void true_negatives_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    count(tally, y, t, n, false, false);
}

static void false_negatives_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    count(tally, y, t, n, false, true);
}

static double count_value(const ps_tally *tally)
{
    return (double)tally->count[0];
}

const ps_metric ps_metric_true_positives = {
    .name = "true_positives",
    .summary = "positive samples with p above the threshold",
    .params = confusion_params,
    .targets = PS_TARGETS_BINARY,
    .counts = 1,
    .add = true_positives_add,
    .value = count_value,
};

const ps_metric ps_metric_false_positives = {
    .name = "false_positives",
    .summary = "negative samples with p above the threshold",
    .params = confusion_params,
    .targets = PS_TARGETS_BINARY,
    .is_cost = true,
    .counts = 1,
    .add = false_positives_add,
    .value = count_value,
};

const ps_metric ps_metric_true_negatives = {
    .name = "true_negatives",
    .summary = "negative samples with p not above the threshold",
    .params = confusion_params,
    .targets = PS_TARGETS_BINARY,
    .counts = 1,
    .add = true_negatives_add,
    .value = count_value,
};

const ps_metric ps_metric_false_negatives = {
    .name = "false_negatives",
    .summary = "positive samples with p not above the threshold",
    .params = confusion_params,
    .targets = PS_TARGETS_BINARY,
    .is_cost = true,
    .counts = 1,
    .add = false_negatives_add,
    .value = count_value,
};
