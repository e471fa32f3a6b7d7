/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - schedules of the learning rate: a factor of it for each step of a job.
 *
 * A schedule is a const table with a pure function and has no state. Servers and workers
 * compute the same factor of a step, bit for bit (steady.h). To add one: write
 * common/optim/schedule_NAME.c, add a line to schedule_list.h and one to CMakeLists.txt.
 */
#ifndef PS_COMMON_OPTIM_SCHEDULE_H
#define PS_COMMON_OPTIM_SCHEDULE_H

#include "common/base/param.h"

#include <stdint.h>

/* Indices of the first two numbers of every schedule, those of the warm-up: a linear rise of the
 * factor before the schedule itself begins. */
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
        .help = "factor of the rate at the first step of the warm-up"                              \
    }

typedef struct ps_schedule {
    const char *name;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* PS_WARMUP_PARAM_LINES first */

    /* Returns the factor at step `s` of `total`. Both count from the end of the warm-up. total > 0;
     * s may be total or more. The result is finite and >= 0. */
    double (*factor)(const ps_params *params, uint64_t s, uint64_t total);
} ps_schedule;

/* Returns the schedule with this name, or NULL if there is none. */
const ps_schedule *ps_schedule_find(const char *name);
/* Calls `fn` for every schedule, in the order of schedule_list.h. */
void ps_schedule_each(void (*fn)(const ps_schedule *schedule, void *arg), void *arg);

/* Returns the factor at `step`, from 0, of a job of `total` steps. During the `warmup` steps it is
 * start + (1 - start) * step / warmup. After them it is the schedule's factor, with both numbers
 * less `warmup`. */
double ps_schedule_factor(const ps_schedule *schedule, const ps_params *params, uint64_t step,
                          uint64_t total);

/* Returns `given` as a number of steps, or `otherwise` if it is 0 (not given). The result is at
 * least 1. */
uint64_t ps_schedule_steps(double given, uint64_t otherwise);

#endif
