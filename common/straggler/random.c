/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - now and then a step takes longer: with a probability, for a time
 * that is drawn from an exponential distribution, whose tail is what makes
 * somebody late in most steps of a large cluster. Draws are by counter of
 * (seed, rank, step), so a job that is repeated is held up at the same places. */
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
     .help = "worker that is held up; -1: all, each for itself"},
    {.name = "probability",
     .value = 0.1,
     .min = 0,
     .max = 1,
     .help = "of a worker's step to be held up"},
    {.name = "mean_ms",
     .value = 50,
     .min = 0,
     .max = PS_STRAGGLER_MAX_MS / 100,
     .help = "mean milliseconds of a step that is"},
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
    .summary = "a step is held up with some probability, for exponentially distributed times",
    .params = random_params,
    .check = ps_straggler_check_rank,
    .delay_us = random_delay_us,
};
