/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_polynomial.c - the factor falls to `end` with a power of the remaining share of
 * steps (PolynomialLR of PyTorch, whose end is 0). With power 1 it falls in a straight line. */
#include "common/base/steady.h"
#include "common/optim/schedule.h"

enum { POWER = PS_WARMUP_PARAMS, END, OVER };

static const ps_param polynomial_params[] = {
    PS_WARMUP_PARAM_LINES,
    {.name = "power", .value = 1, .min = 0.01, .max = 10, .help = "exponent"},
    {.name = "end", .value = 0, .min = 0, .max = 1, .help = "factor at the end"},
    {.name = "over",
     .value = 0,
     .min = 0,
     .max = 1e12,
     .is_integer = true,
     .help = "steps to the end; 0: the whole job"},
    {.name = NULL},
};

static double polynomial_factor(const ps_params *params, uint64_t s, uint64_t total)
{
    uint64_t over = ps_schedule_steps(params->v[OVER], total);
    double end = params->v[END], left = s < over ? (double)(over - s) / (double)over : 0.0;

    return end + (1.0 - end) * ps_steady_pow(left, params->v[POWER]);
}

const ps_schedule ps_schedule_polynomial = {
    .name = "polynomial",
    .summary = "end + (1 - end) * (1 - s / over)^power, then end",
    .params = polynomial_params,
    .factor = polynomial_factor,
};
