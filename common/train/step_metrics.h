/* SPDX-License-Identifier: Apache-2.0 */
/* step_metrics.h - the metrics of one training step, for the TR file: those of the job over the
 * samples of the step, then those of spec.program_metrics, which the rank's program reports.
 *
 * Accuracy has a column of its own: every step has it from the loss (ps_score), or a program
 * reports it. A program's metric with the name of one of the job's has the column of that one. The
 * outputs are those of training, with dropout and statistics of the block. One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_STEP_METRICS_H
#define PS_COMMON_TRAIN_STEP_METRICS_H

#include "common/job/plan.h"
#include "common/metric/tally.h"

typedef struct ps_step_metrics {
    size_t count;                      /* columns beside accuracy */
    size_t tally_count;                /* the first of these, of the job's metrics */
    ps_tally tallies[PS_METRICS_MAX];  /* (tally_count) */
    const char *names[PS_METRICS_MAX]; /* (count), those of plan and spec */
    double values[PS_METRICS_MAX];     /* (count), of the last step; NaN if not defined or said */
    double accuracy; /* what the program has said of the last step; NaN: nothing */

    size_t program_count;          /* of spec.program_metrics */
    double said[PS_METRICS_MAX];   /* (program_count), of the step in hand; NaN: nothing */
    double newest[PS_METRICS_MAX]; /* (program_count), of the last step that has one; NaN: none */
    double *to[PS_METRICS_MAX];    /* (program_count): its place in `values`, or `accuracy` */
    double newest_accuracy;        /* likewise; NaN: none */
} ps_step_metrics;

/* Initialises the metrics in place: the struct must not be moved. */
void ps_step_metrics_init(ps_step_metrics *m, const ps_plan *plan);
void ps_step_metrics_fini(ps_step_metrics *m); /* of zeros too */

/* Returns the number of columns beside accuracy of the jobs of this plan. */
size_t ps_step_metrics_columns(const ps_plan *plan);

/* Adds n samples of the step: outputs y (n, O) and their targets. */
void ps_step_metrics_add(ps_step_metrics *m, const float *y, ps_targets targets, size_t n);

/* Takes what a program says of the step in hand: the finite value of spec.program_metrics[index],
 * in place of an earlier one. */
void ps_step_metrics_say(ps_step_metrics *m, size_t index, double value);

/* Sets `values` and `accuracy` from what was added and said since the last call, and forgets that.
 */
void ps_step_metrics_close(ps_step_metrics *m);

#endif
