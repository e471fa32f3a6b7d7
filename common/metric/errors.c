/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - distances of outputs from target values: mse, rmse, mae, relative_error.
 *
 * p are the outputs as the loss reads them. t are the values, or 1 for the output of the
 * sample's class and 0 for the others. The part of each sample is computed in double; parts are
 * summed exactly.
 */
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

#include <math.h>

static void square_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;

    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;

        ps_outputs_read(tally->facts.link, y + i * width, width, tally->p);
        for (size_t j = 0; j < width; j++) {
            double d = tally->p[j] - (double)ps_targets_of(&t, i, j, width);

            sum += d * d;
        }
        ps_exact_sum_add(&tally->sum[0], sum);
    }
}

/* Adds |p - t| to sum 0 and |t| to sum 1. */
static void distance_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs;

    for (size_t i = 0; i < n; i++) {
        double sum = 0.0, size = 0.0;

        ps_outputs_read(tally->facts.link, y + i * width, width, tally->p);
        for (size_t j = 0; j < width; j++) {
            double want = (double)ps_targets_of(&t, i, j, width);

            sum += fabs(tally->p[j] - want);
            size += fabs(want);
        }
        ps_exact_sum_add(&tally->sum[0], sum);
        ps_exact_sum_add(&tally->sum[1], size);
    }
}

static double mean_value(const ps_tally *tally)
{
    return ps_exact_sum_value(&tally->sum[0]) /
           ((double)tally->samples * (double)tally->facts.outputs);
}

static double root_value(const ps_tally *tally)
{
    return sqrt(mean_value(tally));
}

static double relative_value(const ps_tally *tally)
{
    double size = ps_exact_sum_value(&tally->sum[1]);

    return size == 0.0 ? (double)NAN : ps_exact_sum_value(&tally->sum[0]) / size;
}

const ps_metric ps_metric_mse = {
    .name = "mse",
    .summary = "mean of (p - t)^2 over samples and outputs",
    .targets = PS_TARGETS_ANY,
    .is_cost = true,
    .sums = 1,
    .add = square_add,
    .value = mean_value,
};

const ps_metric ps_metric_rmse = {
    .name = "rmse",
    .summary = "root of the mean of (p - t)^2 over samples and outputs",
    .targets = PS_TARGETS_ANY,
    .is_cost = true,
    .sums = 1,
    .add = square_add,
    .value = root_value,
};

const ps_metric ps_metric_mae = {
    .name = "mae",
    .summary = "mean of |p - t| over samples and outputs",
    .targets = PS_TARGETS_ANY,
    .is_cost = true,
    .sums = 2,
    .add = distance_add,
    .value = mean_value,
};

const ps_metric ps_metric_relative_error = {
    .name = "relative_error",
    .summary = "sum of |p - t| / sum of |t|, over samples and outputs",
    .targets = PS_TARGETS_ANY,
    .is_cost = true,
    .sums = 2,
    .add = distance_add,
    .value = relative_value,
};
