/* SPDX-License-Identifier: Apache-2.0 */
/* accuracy.c - share of samples whose class has the greatest output, the first of equals. With
 * one output for two classes: share of samples whose output is on the right side of one half. */
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

/* Returns the index of the greatest value of a row, the first of equals; `width` if it has a
 * NaN. */
static size_t answer(const float *row, size_t width)
{
    size_t best = 0;

    for (size_t j = 0; j < width; j++) {
        if (row[j] != row[j]) {
            return width;
        }
        best = row[j] > row[best] ? j : best;
    }
    return best;
}

static void accuracy_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;
    double middle = ps_outputs_score_of(tally->facts.link, 0.5);

    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        size_t said = answer(row, width);

        if (width == 1 && said == 0) {
            said = (double)row[0] > middle ? 1 : 0;
            tally->count[0] += ps_targets_class(&t, i, 2) == said;
        } else if (width > 1) {
            tally->count[0] += ps_targets_class(&t, i, width) == said;
        }
    }
}

static double accuracy_value(const ps_tally *tally)
{
    return (double)tally->count[0] / (double)tally->samples;
}

const ps_metric ps_metric_accuracy = {
    .name = "accuracy",
    .summary = "share of samples whose class has the greatest output; with one output: above one "
               "half for class 1",
    .targets = PS_TARGETS_CLASSES,
    .counts = 1,
    .add = accuracy_add,
    .value = accuracy_value,
};
