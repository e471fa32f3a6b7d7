/* SPDX-License-Identifier: Apache-2.0 */
/* perplexity.c - e to the mean of -log p[class]. It is the number of equally likely classes
 * that would leave the same uncertainty. */
#include "common/base/steady.h"
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

#include <math.h>

static void perplexity_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;

    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        double own = (double)row[ps_targets_class(&t, i, width)];

        ps_exact_sum_add(&tally->sum[0], ps_outputs_log_sum(row, width, PS_OUTPUTS_ALL) - own);
    }
}

static double perplexity_value(const ps_tally *tally)
{
    double mean = ps_exact_sum_value(&tally->sum[0]) / (double)tally->samples;

    if (isnan(mean)) {
        return NAN;
    }
    return mean > 700.0 ? (double)INFINITY : ps_steady_exp(mean);
}

const ps_metric ps_metric_perplexity = {
    .name = "perplexity",
    .summary = "e^(mean of -log p[class]), p = softmax(y)",
    .targets = PS_TARGETS_LOGITS,
    .is_cost = true,
    .sums = 1,
    .add = perplexity_add,
    .value = perplexity_value,
};
