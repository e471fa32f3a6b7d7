/* SPDX-License-Identifier: Apache-2.0 */
/* step_metrics.h - the metrics of one training step, for the TR file: those of the job over the
 * samples of the step, then those that a program computing the model reports
 * (spec.program_metrics).
 *
 * Accuracy is no column here: every step has it from the loss (ps_score), or a program reports it.
 * If a program's metric has the name of a metric of the job, both use the job's column. Metrics are
 * computed from the outputs during training, so with dropout and with statistics of the block. One
 * thread at a time. */
#ifndef PS_COMMON_TRAIN_STEP_METRICS_H
#define PS_COMMON_TRAIN_STEP_METRICS_H

#include "common/job/plan.h"
#include "common/metric/tally.h"

typedef struct ps_step_metrics {
    size_t count; /* number of columns, without accuracy */
    /* number of columns that are metrics of the job; they come first */
    size_t tally_count;
    ps_tally tallies[PS_METRICS_MAX];  /* (tally_count) */
    const char *names[PS_METRICS_MAX]; /* (count); the strings are those of plan and spec */
    /* (count): values of the last step that was closed; NaN: not defined or not reported */
    double values[PS_METRICS_MAX];
    /* accuracy that the program reported for the last step that was closed; NaN: none */
    double accuracy;

    size_t program_count; /* number of spec.program_metrics */
    /* (program_count): reported for the step that is not closed yet; NaN: nothing */
    double said[PS_METRICS_MAX];
    double newest[PS_METRICS_MAX]; /* (program_count): the last value ever reported; NaN: none */
    /* (program_count): where the metric's value goes: an element of `values`, or `accuracy` */
    double *to[PS_METRICS_MAX];
    double newest_accuracy; /* the last accuracy ever reported; NaN: none */
} ps_step_metrics;

/* Initialises the metrics in place. The struct must not be moved afterwards, because `to` points
 * into it. */
void ps_step_metrics_init(ps_step_metrics *m, const ps_plan *plan);
void ps_step_metrics_fini(ps_step_metrics *m); /* a struct of zeros is allowed too */

/* Returns the number of columns, without accuracy, that jobs of this plan have. */
size_t ps_step_metrics_columns(const ps_plan *plan);

/* Adds n samples of the step that is not closed yet: outputs y (n, O), O values each, and their
 * targets. */
void ps_step_metrics_add(ps_step_metrics *m, const float *y, ps_targets targets, size_t n);

/* Notes that the program reports `value`, which is finite, for spec.program_metrics[index] in this
 * step. Replaces an earlier report of the step. */
void ps_step_metrics_say(ps_step_metrics *m, size_t index, double value);

/* Ends the step: sets `values` and `accuracy` from what was added and reported since the last call,
 * and begins anew. */
void ps_step_metrics_close(ps_step_metrics *m);

#endif
