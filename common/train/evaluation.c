/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation.c - see evaluation.h. */
#include "common/train/evaluation.h"

#include <math.h>
#include <string.h>

void ps_evaluation_init(ps_evaluation *e, const ps_plan *plan)
{
    memset(e, 0, sizeof *e);
    e->plan = plan;
    for (size_t i = 0; i < plan->metric_count; i++) {
        ps_tally_init(&e->tallies[i], plan->metrics[i].metric, &plan->metrics[i].params,
                      &plan->metric_facts);
    }
}

void ps_evaluation_fini(ps_evaluation *e)
{
    for (size_t i = 0; i < PS_METRICS_MAX; i++) {
        ps_tally_fini(&e->tallies[i]);
    }
}

void ps_evaluation_clear(ps_evaluation *e)
{
    memset(&e->loss, 0, sizeof e->loss);
    e->samples = 0;
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        ps_tally_clear(&e->tallies[i]);
    }
}

void ps_evaluation_add(ps_evaluation *e, ps_model *model, const float *weights, const float *x,
                       ps_targets targets, size_t n)
{
    const float *y = ps_model_predict(model, weights, x, n);
    ps_score score = {0};

    e->plan->loss->eval(y, targets, n, ps_model_output_width(model), 1.0f, NULL, &score);
    ps_exact_sum_add(&e->loss, score.loss_sum);
    e->samples += n;
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        ps_tally_add(&e->tallies[i], y, targets, n);
    }
}

double ps_evaluation_loss(const ps_evaluation *e)
{
    return e->samples == 0 ? (double)NAN : ps_exact_sum_value(&e->loss) / (double)e->samples;
}

void ps_evaluation_values(ps_evaluation *e, double *values)
{
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        values[i] = ps_tally_value(&e->tallies[i]);
    }
}
