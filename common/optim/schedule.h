/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - how the learning rate goes over a job: a factor of it for each step.
 *
 * A schedule is a const table with a pure function; it has no state, so servers
 * and workers that compute the factor of a step have the same one, bit for bit
 * (steady.h). To add one: common/optim/schedule_NAME.c, a line in
 * schedule_list.h, a line in CMakeLists.txt.
 */
#ifndef PS_COMMON_OPTIM_SCHEDULE_H
#define PS_COMMON_OPTIM_SCHEDULE_H

#include "common/base/param.h"

#include <stdint.h>

/* The first numbers of every schedule. */
enum { PS_WARMUP, PS_WARMUP_START, PS_WARMUP_PARAMS };

#define PS_WARMUP_PARAM_LINES                                                                      \
    {.name = "warmup",                                                                             \
     .value = 0,                                                                                   \
     .min = 0,                                                                                     \
     .max = 1e12,                                                                                  \
     .is_integer = true,                                                                           \
     .help = "steps of a linear rise before the schedule begins"},                                 \
    {                                                                                              \
        .name = "warmup_start", .value = 0.01, .min = 0, .max = 1,                                 \
        .help = "factor of the rate at the first step of the rise"                                 \
    }

typedef struct ps_schedule {
    const char *name;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* PS_WARMUP_PARAM_LINES first */

    /* The factor at step s of S, both counted from the end of the warm-up; S > 0,
     * and s may be S or beyond it. Finite and >= 0. */
    double (*factor)(const ps_params *params, uint64_t s, uint64_t total);
} ps_schedule;

const ps_schedule *ps_schedule_find(const char *name); /* NULL if there is none */
void ps_schedule_each(void (*fn)(const ps_schedule *schedule, void *arg), void *arg);

/* The factor at `step` of a job of `total` steps, both from 0: during `warmup`
 * steps start + (1 - start) * step / warmup, then the schedule's own, for which
 * the job begins there. */
double ps_schedule_factor(const ps_schedule *schedule, const ps_params *params, uint64_t step,
                          uint64_t total);

/* A number of steps that is 0 when not given: then `otherwise`, at least 1. */
uint64_t ps_schedule_steps(double given, uint64_t otherwise);

#endif
