/* SPDX-License-Identifier: Apache-2.0 */
/* metric_world.c - see metric_world.h. */
#include "tests/support/metric_world.h"

#include "common/base/draw.h"

#include <math.h>

static const ps_metric_facts kinds[METRIC_KINDS] = {
    {.outputs = 5, .classes = 5, .target_width = 1, .link = PS_LINK_SOFTMAX},
    {.outputs = 2, .classes = 2, .target_width = 1, .link = PS_LINK_SOFTMAX},
    {.outputs = 1, .classes = 2, .target_width = 1, .link = PS_LINK_SIGMOID},
    {.outputs = 4, .classes = 4, .target_width = 1, .link = PS_LINK_SIGMOID},
    {.outputs = 3, .classes = 3, .target_width = 1, .link = PS_LINK_IDENTITY},
    {.outputs = 1, .classes = 2, .target_width = 1, .link = PS_LINK_IDENTITY},
    {.outputs = 3, .classes = 0, .target_width = 3, .link = PS_LINK_IDENTITY},
    {.outputs = 1, .classes = 0, .target_width = 1, .link = PS_LINK_SIGMOID},
};

static void read_row(const ps_metric_facts *facts, const float *y, double *p)
{
    double sum = 0.0;

    for (size_t j = 0; j < facts->outputs; j++) {
        sum += exp((double)y[j]);
    }
    for (size_t j = 0; j < facts->outputs; j++) {
        double x = (double)y[j];

        p[j] = facts->link == PS_LINK_SOFTMAX   ? exp(x) / sum
               : facts->link == PS_LINK_SIGMOID ? 1.0 / (1.0 + exp(-x))
                                                : x;
    }
}

void metric_world_draw(metric_world *at, unsigned kind, uint64_t seed)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, kind, 0, 0);
    size_t width = kinds[kind].outputs;

    at->facts = kinds[kind];
    for (size_t i = 0; i < METRIC_N * width; i++) {
        at->y[i] = (float)((double)ps_draw_below(key, i, 49) / 8.0 - 3.0);
    }
    key = ps_draw_key(seed, PS_DRAW_TEST, kind, 1, 0);
    for (size_t i = 0; i < METRIC_N * at->facts.target_width; i++) {
        if (at->facts.classes > 0) {
            at->t[i] = (float)ps_draw_below(key, i, at->facts.classes);
        } else if (at->facts.target_width == 1) {
            at->t[i] = (float)ps_draw_below(key, i, 2);
        } else {
            at->t[i] = (float)(4.0 * ps_draw_unit(key, i) - 2.0);
        }
    }
    for (size_t i = 0; i < METRIC_N; i++) {
        read_row(&at->facts, at->y + i * width, at->p[i]);
    }
}

ps_targets metric_world_targets(const metric_world *at, size_t first)
{
    return at->facts.classes > 0
               ? ps_targets_classes(at->t + first)
               : ps_targets_values(at->t + first * at->facts.target_width, at->facts.target_width);
}

void metric_world_add(const metric_world *at, size_t first, size_t n, ps_tally *tally)
{
    ps_tally_add(tally, at->y + first * at->facts.outputs, metric_world_targets(at, first), n);
}

bool metric_world_is_positive(const metric_world *at, size_t i)
{
    return at->facts.classes > 0 ? at->t[i] == 1.0f : at->t[i] > 0.5f;
}
