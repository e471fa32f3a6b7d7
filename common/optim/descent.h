/* SPDX-License-Identifier: Apache-2.0 */
/* descent.h - the optimizer of a job: a rule with its schedule and penalties.
 *
 * The gradient g of the loss becomes g + l2 * w + l1 * sign(w), with sign(0) = 0. That is the
 * gradient of the loss plus l2 / 2 * sum w^2 + l1 * sum |w|. PyTorch's weight_decay is l2; that
 * of adamw is a number of its rule and no part of the gradient. The rule makes the increment at
 * the rate lr * factor(step) / 2^halvings. Servers and workers compute the same bits. Immutable;
 * any thread may use it.
 */
#ifndef PS_COMMON_OPTIM_DESCENT_H
#define PS_COMMON_OPTIM_DESCENT_H

#include "common/optim/optim.h"
#include "common/optim/schedule.h"

typedef struct ps_descent {
    const ps_optim *optim;
    ps_params params;
    const ps_schedule *schedule; /* (optional) NULL: a constant rate */
    ps_params schedule_params;
    uint64_t total_steps; /* number of steps of the job */
    double l1, l2;
    /* how often the rate was halved, because the job diverged and went back to a checkpoint */
    uint32_t halvings;
} ps_descent;

/* Which step is made: rules count by t, schedules by step. */
typedef struct ps_moment {
    uint64_t t;    /* number of the step for the optimizer's state, from 1 */
    uint64_t step; /* number of the step in the job, from 0 */
    /* Which part of a step's whole gradient g is: 1, or 1 / K if each of K contributions is a step
     * of its own. Penalties are multiplied by it. */
    double share;
} ps_moment;

/* Returns the learning rate at step `step` of the job. */
double ps_descent_rate(const ps_descent *descent, uint64_t step);

/* Returns the numbers of the rule at step `step` of the job: `lr` is the rate of that step. */
ps_params ps_descent_params(const ps_descent *descent, uint64_t step);

/* Returns g (n) plus the penalties at w times `share` (ps_moment), in `out`, which may be g.
 * Without penalties returns g itself. */
const float *ps_descent_penalised(const ps_descent *descent, double share, const float *g,
                                  const float *w, float *out, size_t n);

/* Does what ps_optim.increment does, with schedule and penalties. Without them the bits are the
 * same. */
void ps_descent_increment(const ps_descent *descent, ps_moment at, const float *g, const float *w,
                          float *state, float *d, size_t n);
/* Does what ps_optim.step does, with schedule and penalties. `scratch` is as large as g and may
 * be g; it is written only if there are penalties. */
void ps_descent_step(const ps_descent *descent, ps_moment at, const float *g, float *scratch,
                     const float *w, float *state, float *to, size_t n);
/* Does what ps_optim.increment_rows does, with schedule and penalties. Untouched rows get no
 * penalty. */
void ps_descent_increment_rows(const ps_descent *descent, ps_moment at, const ps_rows *rows,
                               const float *g, const float *w, float *state, float *d, size_t n);
/* Does what ps_optim.step_rows does, with schedule and penalties. `scratch` as in
 * ps_descent_step. Untouched rows get no penalty. */
void ps_descent_step_rows(const ps_descent *descent, ps_moment at, const ps_rows *rows,
                          const float *g, float *scratch, float *state, float *w, size_t n);

#endif
