/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.c - delays every step of one worker, or of all workers, by a fixed time.
 *
 * `others_ms` delays the other workers. With it an experiment can make every step so long by
 * delays that the load of its machine no longer matters.
 */
#include "common/straggler/straggler.h"

enum { RANK, MS, OTHERS_MS };

static const ps_param fixed_params[] = {
    {.name = "rank",
     .value = 0,
     .min = -1,
     .max = 255,
     .is_integer = true,
     .help = "worker that is delayed; -1: all workers"},
    {.name = "ms",
     .value = 10,
     .min = 0,
     .max = PS_STRAGGLER_MAX_MS,
     .help = "delay of each of its steps in milliseconds"},
    {.name = "others_ms",
     .value = 0,
     .min = 0,
     .max = PS_STRAGGLER_MAX_MS,
     .help = "delay of each step of the other workers in milliseconds"},
    {.name = NULL},
};

static int64_t fixed_delay_us(const ps_params *params, uint64_t seed, uint32_t rank, uint64_t step,
                              int64_t busy_us)
{
    (void)seed;
    (void)step;
    (void)busy_us;
    return (int64_t)(params->v[ps_straggler_is_rank(params, rank) ? MS : OTHERS_MS] * 1000.0);
}

const ps_straggler ps_straggler_fixed = {
    .name = "fixed",
    .summary = "delays every step of one worker (or of all) by `ms`",
    .params = fixed_params,
    .check = ps_straggler_check_rank,
    .delay_us = fixed_delay_us,
};
