/* SPDX-License-Identifier: Apache-2.0 */
/* binary_accuracy.c - share of the outputs of all samples that are right: p is above the threshold,
 * a number of the metric, if the target is above one half, and not above it otherwise. */
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

enum { THRESHOLD };

static const ps_param binary_accuracy_params[] = {
    {.name = "threshold", .value = 0.5, .min = 1e-6, .max = 1 - 1e-6, .help = "p above it means 1"},
    {.name = NULL},
};

static void binary_accuracy_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;
    ps_output_link link = tally->facts.link;
    double middle = ps_outputs_score_of(link, tally->params.v[THRESHOLD]);

    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;

        if (link == PS_LINK_SOFTMAX) {
            ps_outputs_read(link, row, width, tally->p);
        }
        for (size_t j = 0; j < width; j++) {
            bool yes = link == PS_LINK_SOFTMAX ? tally->p[j] > tally->params.v[THRESHOLD]
                                               : (double)row[j] > middle;
            bool should = ps_targets_of(&t, i, j, width) > 0.5f;

            tally->count[0] += yes == should && row[j] == row[j];
        }
    }
}

static double binary_accuracy_value(const ps_tally *tally)
{
    return (double)tally->count[0] / ((double)tally->samples * (double)tally->facts.outputs);
}

const ps_metric ps_metric_binary_accuracy = {
    .name = "binary_accuracy",
    .summary = "share of outputs with p above the threshold if t is 1, and not above it if t is 0",
    .params = binary_accuracy_params,
    .targets = PS_TARGETS_ANY,
    .counts = 1,
    .add = binary_accuracy_add,
    .value = binary_accuracy_value,
};
