/* SPDX-License-Identifier: Apache-2.0 */
/* step_metrics.c - see step_metrics.h. */
#include "common/train/step_metrics.h"

#include <string.h>

void ps_step_metrics_init(ps_step_metrics *m, const ps_plan *plan)
{
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < plan->metric_count; i++) {
        const ps_metric *metric = plan->metrics[i].metric;

        if (strcmp(metric->name, "accuracy") != 0) {
            m->names[m->count] = metric->name;
            ps_tally_init(&m->tallies[m->count++], metric, &plan->metrics[i].params,
                          &plan->metric_facts);
        }
    }
}

void ps_step_metrics_fini(ps_step_metrics *m)
{
    for (size_t i = 0; i < m->count; i++) {
        ps_tally_fini(&m->tallies[i]);
    }
    m->count = 0;
}

void ps_step_metrics_add(ps_step_metrics *m, const float *y, ps_targets targets, size_t n)
{
    for (size_t i = 0; i < m->count; i++) {
        ps_tally_add(&m->tallies[i], y, targets, n);
    }
}

void ps_step_metrics_close(ps_step_metrics *m)
{
    for (size_t i = 0; i < m->count; i++) {
        m->values[i] = ps_tally_value(&m->tallies[i]);
        ps_tally_clear(&m->tallies[i]);
    }
}
