/* SPDX-License-Identifier: Apache-2.0 */
/* accuracy.c - share of samples whose class has the greatest output, the first of equals. With
 * one output for two classes: share of samples whose output is on the right side of one half. */
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

static void accuracy_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;

    for (size_t i = 0; i < n; i++) {
        size_t said = ps_outputs_class(tally->facts.link, y + i * width, width);

        tally->count[0] += ps_targets_class(&t, i, width > 1 ? width : 2) == said;
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
