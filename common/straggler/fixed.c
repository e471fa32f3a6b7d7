/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.c - every step of a worker, or of all, takes so much longer. With others_ms
 * the delays are all that counts, so that an experiment does not depend on what
 * else its machine does. */
#include "common/straggler/straggler.h"

enum { RANK, MS, OTHERS_MS };

static const ps_param fixed_params[] = {
    {.name = "rank",
     .value = 0,
     .min = -1,
     .max = 255,
     .is_integer = true,
     .help = "worker that is held up; -1: all"},
    {.name = "ms",
     .value = 10,
     .min = 0,
     .max = PS_STRAGGLER_MAX_MS,
     .help = "milliseconds a step"},
    {.name = "others_ms",
     .value = 0,
     .min = 0,
     .max = PS_STRAGGLER_MAX_MS,
     .help = "milliseconds a step of the other workers"},
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
    .summary = "a worker (or all) is held up for `ms` in every step",
    .params = fixed_params,
    .check = ps_straggler_check_rank,
    .delay_us = fixed_delay_us,
};
