/* SPDX-License-Identifier: Apache-2.0 */
/* metric_world.h - outputs and targets of every kind that a metric may meet. */
#ifndef PS_TESTS_SUPPORT_METRIC_WORLD_H
#define PS_TESTS_SUPPORT_METRIC_WORLD_H

#include "common/metric/tally.h"

enum { METRIC_N = 400, METRIC_WIDTH_MAX = 5, METRIC_KINDS = 8 };

typedef struct metric_world {
    ps_metric_facts facts;
    float y[METRIC_N * METRIC_WIDTH_MAX]; /* (METRIC_N, O) */
    float t[METRIC_N * METRIC_WIDTH_MAX]; /* (METRIC_N, target_width) */
    double p[METRIC_N][METRIC_WIDTH_MAX]; /* as the loss reads y, by libm */
} metric_world;

/* One of METRIC_KINDS. Outputs are whole eighths, so that many are equal. */
void metric_world_draw(metric_world *at, unsigned kind, uint64_t seed);

/* Targets of the samples from `first`. */
ps_targets metric_world_targets(const metric_world *at, size_t first);

/* Samples [first, first + n) one after the other. */
void metric_world_add(const metric_world *at, size_t first, size_t n, ps_tally *tally);

/* Whether sample i is of the positive class, 1. */
bool metric_world_is_positive(const metric_world *at, size_t i);

#endif
