/* SPDX-License-Identifier: Apache-2.0 */
/* binary_sum_cross_entropy.c - the number that Parallel-SGD reports as its cross-entropy: the
 * binary cross-entropy of every single output, whatever loss trained the model. */
#include "common/base/steady.h"
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

#include <math.h>

/* Keeps the logarithm of a probability of 0 finite. It is part of the formula. */
static const double least = 1e-9;

static double coin(double p, double t)
{
    double q = p < 0.0 ? 0.0 : p > 1.0 ? 1.0 : p;

    return isnan(q) ? q
                    : -(t * ps_steady_log(q + least) + (1.0 - t) * ps_steady_log(1.0 - q + least));
}

static void binary_sum_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;

    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;

        ps_outputs_read(tally->facts.link, y + i * width, width, tally->p);
        for (size_t j = 0; j < width; j++) {
            sum += coin(tally->p[j], (double)ps_targets_of(&t, i, j, width));
        }
        ps_exact_sum_add(&tally->sum[0], sum);
    }
}

static double binary_sum_value(const ps_tally *tally)
{
    return ps_exact_sum_value(&tally->sum[0]) / (double)tally->samples;
}

const ps_metric ps_metric_binary_sum_cross_entropy = {
    .name = "binary_sum_cross_entropy",
    .summary = "mean over samples of the sum over outputs of -t log(p + 1e-9) - (1 - t) log(1 - p "
               "+ 1e-9), p cut to [0, 1]",
    .targets = PS_TARGETS_ANY,
    .is_cost = true,
    .sums = 1,
    .add = binary_sum_add,
    .value = binary_sum_value,
};
