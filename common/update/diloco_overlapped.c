/* SPDX-License-Identifier: Apache-2.0 */
/* diloco_overlapped.c - DiLoCo whose exchange runs during the next round, with eager updates
 * (Kale, Douillard, Donchev, arXiv 2502.12996).
 *
 * In eager updates every worker has an outer optimizer, with a replica and a momentum. P_t are the
 * increments of worker i in round t, and a is its share of the mean D_t of all workers' P_t, which
 * is still being exchanged. So the outer optimizer of worker i gets
 *
 *     E_t = a P_t + (D_(t-1) - a P_(t-1)).
 *
 * That is the worker's own part a P_t of D_t, and the parts of the other workers one round later,
 * so each part counts once. The outer rule is Nesterov's, u = m u + E, x -= r (E + m u), which is
 * linear. So the steps on the means give w, which the servers keep. Of the steps on a P_t - a
 * P_(t-1) all cancels except the step on the worker's own part:
 *
 *     v = m v + a P_t, x = w - r (a P_t + m v).
 *
 * The delay of the other parts limits how far a round may move the weights. Suppose that workers
 * are alike and that a round moves the weights by the share c of their distance to an optimum.
 * Then the method converges with m = 0.9 while c is below
 *
 *     r     2 workers  4     8     many
 *     0.7   1.09       0.59  0.45  0.36   the rate of DiLoCo itself
 *     0.4   1.92       1.03  0.80  0.63   the paper's for eager updates, with 2 workers
 *     0.2   3.84       2.07  1.60  1.26   the default: c may be 1
 *
 * If the momentum of the inner rule spans more steps than a round, it adds to the delay.
 */
#include "common/update/update.h"

enum { OUTER_RATE, OUTER_MOMENTUM };

static const ps_param diloco_overlapped_params[] = {
    PS_LOCAL_STEPS_PARAM(64),
    {.name = NULL},
};

/* Implements v = m v + a P, x = w - r (a P + m v) of the head. Slots: x at the beginning of the
 * round, v. State of layers goes as in ps_local_contribute_ahead. */
static void diloco_overlapped_contribute(const ps_round *round, const ps_stretch *v)
{
    float *begun = v->slots, *velocity = begun + v->n;
    float share = (float)round->share;
    float rate = (float)round->outer->v[OUTER_RATE], m = (float)round->outer->v[OUTER_MOMENTUM];

    if (v->is_state) {
        ps_local_contribute_ahead(round, v, 0.0f);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        float own = share * (begun[i] - v->x[i]);

        velocity[i] = m * velocity[i] + own;
        v->p[i] = own;
        v->x[i] = v->w[i] - rate * (own + m * velocity[i]);
        begun[i] = v->x[i];
    }
}

static const ps_local diloco_overlapped_local = {
    .is_overlapped = true,
    .needs_bsp = true,
    .slots = 2,
    .inner = {.name = "adamw"},
    .outer = {"nesterov", {{"lr", 0.2}, {"momentum", 0.9}}},
    .only_outer = "nesterov",
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = diloco_overlapped_contribute,
};

const ps_update ps_update_diloco_overlapped = {
    .name = "diloco_overlapped",
    .summary = "DiLoCo that trains on during the exchange of a round, starting from its own part",
    .params = diloco_overlapped_params,
    .merge_scale = ps_update_merge_sum,
    .local = &diloco_overlapped_local,
};
