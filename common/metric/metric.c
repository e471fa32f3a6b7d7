/* SPDX-License-Identifier: Apache-2.0 */
/* metric.c - the registry: a const array made of common/metric/list.h. */
#include "common/metric/metric.h"

#include <inttypes.h>
#include <string.h>

#define PS_METRIC(name) extern const ps_metric ps_metric_##name;
#include "common/metric/list.h"
#undef PS_METRIC

static const ps_metric *const metrics[] = {
#define PS_METRIC(name) &ps_metric_##name,
#include "common/metric/list.h"
#undef PS_METRIC
};

enum { METRIC_COUNT = sizeof metrics / sizeof metrics[0] };

const ps_metric *ps_metric_find(const char *name)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        if (strcmp(metrics[i]->name, name) == 0) {
            return metrics[i];
        }
    }
    return NULL;
}

void ps_metric_each(void (*fn)(const ps_metric *metric, void *arg), void *arg)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        fn(metrics[i], arg);
    }
}

static ps_status fits_binary(const ps_metric *metric, const ps_params *params,
                             const ps_metric_facts *facts)
{
    double positive = params->v[PS_METRIC_POSITIVE];

    if (facts->classes == 0 && (facts->target_width != 1 || facts->outputs != 1)) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "%s needs classes, or one output and one target value; targets have %zu values",
            metric->name, facts->target_width);
    }
    if (facts->classes > 0 && positive >= (double)facts->classes) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s's positive is %.0f; 0 to %" PRIu32 " are allowed",
                       metric->name, positive, facts->classes - 1);
    }
    if (facts->outputs == 1 && positive != 1.0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s's positive is %.0f; with one output only 1 is allowed", metric->name,
                       positive);
    }
    return ps_ok();
}

ps_status ps_metric_fits(const ps_metric *metric, const ps_params *params,
                         const ps_metric_facts *facts)
{
    ps_status st = ps_ok();

    switch (metric->targets) {
    case PS_TARGETS_ANY:
        break;
    case PS_TARGETS_CLASSES:
    case PS_TARGETS_LOGITS:
        if (facts->classes == 0) {
            st =
                ps_fail(PS_INVALID_ARGUMENT, "%s needs classes as targets; targets have %zu values",
                        metric->name, facts->target_width);
        } else if (metric->targets == PS_TARGETS_LOGITS && facts->link != PS_LINK_SOFTMAX) {
            st = ps_fail(PS_INVALID_ARGUMENT, "%s needs the loss softmax_cross_entropy",
                         metric->name);
        }
        break;
    case PS_TARGETS_BINARY:
        st = fits_binary(metric, params, facts);
        break;
    }
    if (ps_is_ok(&st) && metric->fits != NULL) {
        st = metric->fits(params, facts);
    }
    return st;
}
