/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - delays a step with a given probability, for an exponentially distributed time.
 *
 * The tail of the exponential distribution makes some worker late in most steps of a large
 * cluster. Draws are by counter from (seed, rank, step), so a repeated job has the same delays.
 */
#include "common/straggler/straggler.h"

#include "common/base/draw.h"

#include <math.h>

enum { RANK, PROBABILITY, MEAN_MS };

static const ps_param random_params[] = {
    {.name = "rank",
     .value = -1,
     .min = -1,
     .max = 255,
     .is_integer = true,
     .help = "worker that is delayed; -1: all workers, each by draws of its own"},
    {.name = "probability",
     .value = 0.1,
     .min = 0,
     .max = 1,
     .help = "probability that a step is delayed"},
    {.name = "mean_ms",
     .value = 50,
     .min = 0,
     .max = PS_STRAGGLER_MAX_MS / 100,
     .help = "mean delay of a delayed step in milliseconds"},
    {.name = NULL},
};

static int64_t random_delay_us(const ps_params *params, uint64_t seed, uint32_t rank, uint64_t step,
                               int64_t busy_us)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_STRAGGLER, rank, step, 0);

    (void)busy_us;
    if (!ps_straggler_is_rank(params, rank) || ps_draw_unit(key, 0) >= params->v[PROBABILITY]) {
        return 0;
    }
    return (int64_t)(-log1p(-ps_draw_unit(key, 1)) * params->v[MEAN_MS] * 1000.0);
}

const ps_straggler ps_straggler_random = {
    .name = "random",
    .summary = "delays a step with `probability`, for an exponentially distributed time",
    .params = random_params,
    .check = ps_straggler_check_rank,
    .delay_us = random_delay_us,
};
