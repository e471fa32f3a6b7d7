/* SPDX-License-Identifier: Apache-2.0 */
/* slow.c - makes each step of one worker, or of all, take `factor` times as long. A delay is at
 * most PS_STRAGGLER_MAX_MS. */
#include "common/straggler/straggler.h"

enum { RANK, FACTOR };

static const ps_param slow_params[] = {
    {.name = "rank",
     .value = 0,
     .min = -1,
     .max = 255,
     .is_integer = true,
     .help = "worker that is slow; -1: all workers"},
    {.name = "factor",
     .value = 4,
     .min = 1,
     .max = 1000,
     .help = "time of its steps, relative to their time without delay"},
    {.name = NULL},
};

static int64_t slow_delay_us(const ps_params *params, uint64_t seed, uint32_t rank, uint64_t step,
                             int64_t busy_us)
{
    double us = (double)busy_us * (params->v[FACTOR] - 1.0), most = PS_STRAGGLER_MAX_MS * 1000.0;

    (void)seed;
    (void)step;
    if (!ps_straggler_is_rank(params, rank)) {
        return 0;
    }
    return (int64_t)(us < most ? us : most);
}

const ps_straggler ps_straggler_slow = {
    .name = "slow",
    .summary = "makes the steps of one worker, or of all, `factor` times as long",
    .params = slow_params,
    .check = ps_straggler_check_rank,
    .delay_us = slow_delay_us,
};
