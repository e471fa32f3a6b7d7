/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the registry of schedules, and the warm-up that all of them have; see
 * schedule.h. */
#include "common/optim/schedule.h"

#include <string.h>

#define PS_SCHEDULE(name) extern const ps_schedule ps_schedule_##name;
#include "common/optim/schedule_list.h"
#undef PS_SCHEDULE

static const ps_schedule *const schedules[] = {
#define PS_SCHEDULE(name) &ps_schedule_##name,
#include "common/optim/schedule_list.h"
#undef PS_SCHEDULE
};

enum { SCHEDULE_COUNT = sizeof schedules / sizeof schedules[0] };

const ps_schedule *ps_schedule_find(const char *name)
{
    for (size_t i = 0; i < SCHEDULE_COUNT; i++) {
        if (strcmp(schedules[i]->name, name) == 0) {
            return schedules[i];
        }
    }
    return NULL;
}

void ps_schedule_each(void (*fn)(const ps_schedule *schedule, void *arg), void *arg)
{
    for (size_t i = 0; i < SCHEDULE_COUNT; i++) {
        fn(schedules[i], arg);
    }
}

double ps_schedule_factor(const ps_schedule *schedule, const ps_params *params, uint64_t step,
                          uint64_t total)
{
    uint64_t warmup = (uint64_t)params->v[PS_WARMUP];
    double start = params->v[PS_WARMUP_START];

    if (step < warmup) {
        return start + (1.0 - start) * ((double)step / (double)warmup);
    }
    return schedule->factor(params, step - warmup, total > warmup ? total - warmup : 1);
}

uint64_t ps_schedule_steps(double given, uint64_t otherwise)
{
    uint64_t steps = given >= 1.0 ? (uint64_t)given : otherwise;

    return steps > 0 ? steps : 1;
}
