/* SPDX-License-Identifier: Apache-2.0 */
/* step_metrics.c - see step_metrics.h. */
#include "common/train/step_metrics.h"

#include <math.h>
#include <string.h>

/* Returns where the values of the metric with this name go. Adds a column if no column has the
 * name. */
static double *place_of(ps_step_metrics *m, const char *name)
{
    size_t i = 0;

    if (strcmp(name, "accuracy") == 0) {
        return &m->accuracy;
    }
    while (i < m->count && strcmp(m->names[i], name) != 0) {
        i++;
    }
    if (i == m->count) {
        m->names[m->count++] = name;
    }
    return &m->values[i];
}

void ps_step_metrics_init(ps_step_metrics *m, const ps_plan *plan)
{
    memset(m, 0, sizeof *m);
    m->accuracy = m->newest_accuracy = (double)NAN;
    for (size_t i = 0; i < plan->metric_count; i++) {
        const ps_metric *metric = plan->metrics[i].metric;

        if (strcmp(metric->name, "accuracy") != 0) {
            m->names[m->count++] = metric->name;
            ps_tally_init(&m->tallies[m->tally_count++], metric, &plan->metrics[i].params,
                          &plan->metric_facts);
        }
    }
    m->program_count = plan->spec->n_program_metrics;
    for (size_t i = 0; i < m->program_count; i++) {
        m->to[i] = place_of(m, plan->spec->program_metrics[i]);
        m->said[i] = m->newest[i] = (double)NAN;
    }
}

size_t ps_step_metrics_columns(const ps_plan *plan)
{
    ps_step_metrics m = {0};

    for (size_t i = 0; i < plan->metric_count; i++) {
        (void)place_of(&m, plan->metrics[i].metric->name);
    }
    for (size_t i = 0; i < plan->spec->n_program_metrics; i++) {
        (void)place_of(&m, plan->spec->program_metrics[i]);
    }
    return m.count;
}

void ps_step_metrics_fini(ps_step_metrics *m)
{
    for (size_t i = 0; i < m->tally_count; i++) {
        ps_tally_fini(&m->tallies[i]);
    }
    m->count = m->tally_count = 0;
}

void ps_step_metrics_add(ps_step_metrics *m, const float *y, ps_targets targets, size_t n)
{
    for (size_t i = 0; i < m->tally_count; i++) {
        ps_tally_add(&m->tallies[i], y, targets, n);
    }
}

void ps_step_metrics_say(ps_step_metrics *m, size_t index, double value)
{
    m->said[index] = value;
}

void ps_step_metrics_close(ps_step_metrics *m)
{
    m->accuracy = (double)NAN;
    for (size_t i = 0; i < m->count; i++) {
        m->values[i] = (double)NAN;
    }
    for (size_t i = 0; i < m->tally_count; i++) {
        m->values[i] = ps_tally_value(&m->tallies[i]);
        ps_tally_clear(&m->tallies[i]);
    }
    for (size_t i = 0; i < m->program_count; i++) {
        if (!isnan(m->said[i])) {
            *m->to[i] = m->newest[i] = m->said[i];
            m->said[i] = (double)NAN;
        }
    }
    m->newest_accuracy = isnan(m->accuracy) ? m->newest_accuracy : m->accuracy;
}
