/* SPDX-License-Identifier: Apache-2.0 */
/* descent.h - an optimizer as a job has it: rule, schedule and penalties.
 *
 * The gradient g of the loss becomes g + l2 * w + l1 * sign(w), that of the loss
 * plus l2 / 2 * sum w^2 + l1 * sum |w| (sign(0) = 0; PyTorch's weight_decay is
 * l2, but adamw's, which is a number of that rule and no part of the gradient);
 * the rule makes an increment of it at the rate lr * factor(step). The same
 * on servers and workers. Immutable; any thread.
 */
#ifndef PS_COMMON_OPTIM_DESCENT_H
#define PS_COMMON_OPTIM_DESCENT_H

#include "common/optim/optim.h"
#include "common/optim/schedule.h"

typedef struct ps_descent {
    const ps_optim *optim;
    ps_params params;
    const ps_schedule *schedule; /* (optional) NULL: the rate as it is */
    ps_params schedule_params;
    uint64_t total_steps; /* of the job */
    double l1, l2;
} ps_descent;

/* Which step it is. */
typedef struct ps_moment {
    uint64_t t;    /* steps of this state, from 1: what rules count */
    uint64_t step; /* of the job, from 0: what schedules count */
    /* How much of a step's whole gradient g stands for: 1, or 1 / K when each of
     * K contributions is a step of its own; penalties are taken by that share. */
    double share;
} ps_moment;

/* The learning rate at that step of the job. */
double ps_descent_rate(const ps_descent *descent, uint64_t step);

/* The rule's numbers at that step: with that rate. */
ps_params ps_descent_params(const ps_descent *descent, uint64_t step);

/* As the functions of ps_optim, with the same bits where there is neither a
 * schedule nor a penalty. d and scratch (as large as g) may be g; scratch is
 * written only where there are penalties. Of rows that are not touched the
 * penalties touch nothing either. */
void ps_descent_increment(const ps_descent *descent, ps_moment at, const float *g, const float *w,
                          float *state, float *d, size_t n);
void ps_descent_step(const ps_descent *descent, ps_moment at, const float *g, float *scratch,
                     float *state, float *w, size_t n);
void ps_descent_increment_rows(const ps_descent *descent, ps_moment at, const ps_rows *rows,
                               const float *g, const float *w, float *state, float *d, size_t n);
void ps_descent_step_rows(const ps_descent *descent, ps_moment at, const ps_rows *rows,
                          const float *g, float *scratch, float *state, float *w, size_t n);

#endif
