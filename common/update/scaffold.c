/* SPDX-License-Identifier: Apache-2.0 */
/* scaffold.c - local steps with a correction for the drift of workers that have different data
 * (Karimireddy et al. 2020, option II). M of N workers take part in a round. A local step at the
 * rate eta takes g - c_i + c, and after K steps
 *     c_i = c_i - c + (w - x_i) / (K eta)
 *     c   = c + (M / N) (mean over those who take part of the above - c_i before).
 *
 * The sum over workers of the changes of c_i is the sum of (w - x_i) / (K eta) - c. The mean of
 * w - x_i is the change of the weights divided by the outer rate. So each worker computes c
 * from the weights that it pulls anyway,
 *     c = c + (M / N) ((w_t - w_(t+1)) / (outer rate * K eta) - c),
 * and sends nothing more. With lossy codecs c is as inexact as the weights.
 */
#include "common/update/update.h"

enum { STEPS, FRACTION };
enum { OUTER_RATE };

static const ps_param scaffold_params[] = {
    PS_LOCAL_STEPS_PARAM(32),
    {.name = "fraction",
     .value = 1,
     .min = 0.001,
     .max = 1,
     .help = "share of the workers that each round draws"},
    {.name = NULL},
};

static double scaffold_fraction(const ps_params *params)
{
    return params->v[FRACTION];
}

static bool scaffold_by_samples(const ps_params *params)
{
    (void)params;
    return false; /* c is a mean over workers, not over samples */
}

/* Computes c from the change of the pulled weights, as the head says (in the first round c stays
 * 0), and sets x = w. Slots: c, c_i, w of the round before. */
static void scaffold_adopt(const ps_round *round, const ps_stretch *v)
{
    float *c = v->slots, *before = v->slots + 2 * v->n;
    float part = (float)((double)round->taken / (double)round->workers);
    double moved = round->outer->v[OUTER_RATE] * round->last_rate_sum;

    for (size_t i = 0; i < v->n; i++) {
        if (round->clock > 0 && moved > 0) {
            c[i] += part * ((before[i] - v->w[i]) / (float)moved - c[i]);
        }
        before[i] = v->w[i];
        v->x[i] = v->w[i];
    }
}

static void scaffold_adjust(const ps_round *round, const ps_stretch *v)
{
    const float *c = v->slots, *own = v->slots + v->n;

    (void)round;
    for (size_t i = 0; i < v->n; i++) {
        v->g[i] += c[i] - own[i];
    }
}

static void scaffold_contribute(const ps_round *round, const ps_stretch *v)
{
    float *c = v->slots, *own = v->slots + v->n;

    for (size_t i = 0; i < v->n && round->rate_sum > 0; i++) {
        own[i] += (v->w[i] - v->x[i]) / (float)round->rate_sum - c[i];
    }
    ps_local_contribute_mean(round, v);
}

static const ps_local scaffold_local = {
    .needs_bsp = true,
    .slots = 3,
    .inner = {.name = "sgd"},
    .only_inner = "sgd",
    .outer = PS_LOCAL_OUTER_PLAIN,
    .only_outer = "sgd",
    .steps = ps_local_steps,
    .fraction = scaffold_fraction,
    .by_samples = scaffold_by_samples,
    .adopt = scaffold_adopt,
    .adjust = scaffold_adjust,
    .contribute = scaffold_contribute,
};

const ps_update ps_update_scaffold = {
    .name = "scaffold",
    .summary = "fedavg with control variates against the drift of workers (SCAFFOLD)",
    .params = scaffold_params,
    .merge_scale = ps_update_merge_sum,
    .local = &scaffold_local,
};
