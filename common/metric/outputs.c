/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c - see outputs.h. */
#include "common/metric/outputs.h"

#include "common/base/steady.h"

#include <math.h>

static double greatest(const float *row, size_t width, size_t without)
{
    double max = -(double)INFINITY;

    for (size_t j = 0; j < width; j++) {
        double y = (double)row[j];

        if (j != without && !(y <= max)) { /* once there was a NaN, it stays the greatest */
            max = isnan(max) ? max : y;
        }
    }
    return max;
}

double ps_outputs_log_sum(const float *row, size_t width, size_t without)
{
    double max = greatest(row, width, without), sum = 0.0;

    if (!isfinite(max)) {
        return max;
    }
    for (size_t j = 0; j < width; j++) {
        if (j != without) {
            sum += ps_steady_exp((double)row[j] - max);
        }
    }
    return max + ps_steady_log(sum);
}

/* Returns 1 / (1 + e^-z). Computes e^-|z|, which cannot overflow. */
static double sigmoid(double z)
{
    double e = isnan(z) ? z : ps_steady_exp(-fabs(z));

    return (z < 0.0 ? e : 1.0) / (1.0 + e);
}

static void softmax(const float *row, size_t width, double *p)
{
    double max = greatest(row, width, PS_OUTPUTS_ALL), sum = 0.0;

    for (size_t j = 0; j < width; j++) {
        p[j] = isfinite(max) ? ps_steady_exp((double)row[j] - max) : (double)NAN;
        sum += p[j];
    }
    for (size_t j = 0; j < width; j++) {
        p[j] /= sum;
    }
}

void ps_outputs_read(ps_output_link link, const float *row, size_t width, double *p)
{
    switch (link) {
    case PS_LINK_SOFTMAX:
        softmax(row, width, p);
        return;
    case PS_LINK_SIGMOID:
        for (size_t j = 0; j < width; j++) {
            p[j] = sigmoid((double)row[j]);
        }
        return;
    case PS_LINK_IDENTITY:
        for (size_t j = 0; j < width; j++) {
            p[j] = (double)row[j];
        }
        return;
    }
}

size_t ps_outputs_class(ps_output_link link, const float *row, size_t width)
{
    size_t best = 0;

    for (size_t j = 0; j < width; j++) {
        if (isnan(row[j])) {
            return PS_OUTPUTS_NO_CLASS;
        }
        best = row[j] > row[best] ? j : best;
    }
    return width > 1 ? best : (double)row[0] > ps_outputs_score_of(link, 0.5);
}

double ps_outputs_score(ps_output_link link, const float *row, size_t width, size_t positive)
{
    if (width == 1) {
        return (double)row[0];
    }
    if (link != PS_LINK_SOFTMAX) {
        return (double)row[positive];
    }
    if (width == 2) {
        return (double)row[positive] - (double)row[1 - positive];
    }
    return (double)row[positive] - ps_outputs_log_sum(row, width, positive);
}

double ps_outputs_score_of(ps_output_link link, double p)
{
    return link == PS_LINK_IDENTITY ? p : ps_steady_log(p / (1.0 - p));
}

bool ps_targets_positive(const ps_targets *targets, size_t i, size_t positive)
{
    if (!targets->is_class) {
        return targets->at[i * targets->width] > 0.5f;
    }
    return targets->at[i] == (float)positive;
}
