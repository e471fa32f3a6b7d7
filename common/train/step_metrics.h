/* SPDX-License-Identifier: Apache-2.0 */
/* step_metrics.h - the job's metrics over the samples of one training step, for the TR file.
 *
 * Accuracy is left out: every step has it from the loss (ps_score). The outputs are those of
 * training, with dropout and statistics of the block. One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_STEP_METRICS_H
#define PS_COMMON_TRAIN_STEP_METRICS_H

#include "common/job/plan.h"
#include "common/metric/tally.h"

typedef struct ps_step_metrics {
    size_t count;
    ps_tally tallies[PS_METRICS_MAX];  /* (count) */
    const char *names[PS_METRICS_MAX]; /* (count), the metrics' own */
    double values[PS_METRICS_MAX];     /* (count), of the last step; NaN if not defined */
} ps_step_metrics;

void ps_step_metrics_init(ps_step_metrics *m, const ps_plan *plan);
void ps_step_metrics_fini(ps_step_metrics *m); /* of zeros too */

/* Adds n samples of the step: outputs y (n, O) and their targets. */
void ps_step_metrics_add(ps_step_metrics *m, const float *y, ps_targets targets, size_t n);

/* Sets `values` from the samples added since the last call, and forgets the samples. */
void ps_step_metrics_close(ps_step_metrics *m);

#endif
