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
    /* what the loss makes of y: probabilities, or the values themselves; computed with libm */
    double p[METRIC_N][METRIC_WIDTH_MAX];
} metric_world;

/* Draws samples of one of METRIC_KINDS kinds of task. Outputs are multiples of 1/8, so that many
 * are equal. */
void metric_world_draw(metric_world *at, unsigned kind, uint64_t seed);

/* Returns the targets of the samples from `first` on. */
ps_targets metric_world_targets(const metric_world *at, size_t first);

/* Adds the samples [first, first + n) to the tally, one after the other. */
void metric_world_add(const metric_world *at, size_t first, size_t n, ps_tally *tally);

/* Returns whether sample i is of the positive class, which is class 1. */
bool metric_world_is_positive(const metric_world *at, size_t i);

#endif
