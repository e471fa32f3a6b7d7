/* SPDX-License-Identifier: Apache-2.0 */
/* diloco_overlapped.c - DiLoCo whose exchange is hidden behind the next round, with
 * eager updates (Kale, Douillard, Donchev 2025): while the mean D_t of this round's
 * P_i travels, the worker goes on from the weights that would come of
 *     E_i = D_(t-1) + (P_i,t - P_i,t-1) / N,
 * the last mean with its own part brought up to date (in the first round: its own
 * P_i). The outer rule is Nesterov's, u = m u + D, w -= r (D + m u), so D and u of the
 * round before follow from how the weights moved, and every worker has them:
 *     D = ((w_(t-1) - w_t) / r - m^2 u) / (1 + m). */
#include "common/update/update.h"

enum { OUTER_RATE, OUTER_MOMENTUM };

static const ps_param diloco_overlapped_params[] = {
    PS_LOCAL_STEPS_PARAM(64),
    {.name = NULL},
};

/* Slots: x as the round began, u, w of the round before, the P before. */
static void diloco_overlapped_contribute(const ps_round *round, const ps_stretch *v)
{
    float *begun = v->slots, *u = begun + v->n, *before = u + v->n, *last = before + v->n;
    float share = (float)round->share, own = (float)(1.0 / (double)round->workers);
    float rate = (float)round->outer->v[OUTER_RATE], m = (float)round->outer->v[OUTER_MOMENTUM];

    if (v->is_state || !(rate > 0.0f)) {
        ps_local_contribute_ahead(round, v, 0.0f);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        float p = begun[i] - v->x[i], eager = p;

        if (round->clock > 0) {
            float mean = ((before[i] - v->w[i]) / rate - m * m * u[i]) / (1.0f + m);

            u[i] = m * u[i] + mean;
            eager = mean + own * (p - last[i]);
        }
        v->p[i] = share * p;
        v->x[i] = v->w[i] - rate * ((1.0f + m) * eager + m * m * u[i]);
        begun[i] = v->x[i];
        before[i] = v->w[i];
        last[i] = p;
    }
}

static const ps_local diloco_overlapped_local = {
    .is_overlapped = true,
    .needs_bsp = true,
    .slots = 4,
    .inner = {.name = "adamw"},
    .outer = PS_LOCAL_OUTER_NESTEROV,
    .only_outer = "nesterov",
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = diloco_overlapped_contribute,
};

const ps_update ps_update_diloco_overlapped = {
    .name = "diloco_overlapped",
    .summary = "DiLoCo that trains on while a round is exchanged, from an eager estimate of it",
    .params = diloco_overlapped_params,
    .merge_scale = ps_update_merge_sum,
    .local = &diloco_overlapped_local,
};
