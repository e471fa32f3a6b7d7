/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_cosine.c - half a period of a cosine, without restarts (Loshchilov and
 * Hutter 2017, arXiv:1608.03983, equation 5; CosineAnnealingLR of PyTorch).
 */
#include "common/base/steady.h"
#include "common/optim/schedule.h"

enum { END = PS_WARMUP_PARAMS, OVER };

static const ps_param cosine_params[] = {
    PS_WARMUP_PARAM_LINES,
    {.name = "end", .value = 0, .min = 0, .max = 1, .help = "factor at the end"},
    {.name = "over",
     .value = 0,
     .min = 0,
     .max = 1e12,
     .is_integer = true,
     .help = "steps to the end; 0: the whole job"},
    {.name = NULL},
};

static double cosine_factor(const ps_params *params, uint64_t s, uint64_t total)
{
    uint64_t over = ps_schedule_steps(params->v[OVER], total);
    double end = params->v[END], x = s < over ? (double)s / (double)over : 1.0;

    return end + (1.0 - end) * (1.0 + ps_steady_cos_pi(x)) / 2.0;
}

const ps_schedule ps_schedule_cosine = {
    .name = "cosine",
    .summary =
        "end + (1 - end) * (1 + cos(pi * s / over)) / 2, then end (Loshchilov and Hutter 2017)",
    .params = cosine_params,
    .factor = cosine_factor,
};
