/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - functions that local methods share; see local.h. */
#include "common/update/local.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t ps_local_steps(const ps_params *params, uint64_t clock)
{
    (void)clock;
    return (uint32_t)params->v[0];
}

void ps_local_adopt(const ps_local *local, const ps_round *round, const ps_stretch *v)
{
    if (local->adopt != NULL) {
        local->adopt(round, v);
    } else {
        memcpy(v->x, v->w, v->n * sizeof *v->x);
    }
}

void ps_local_contribute_mean(const ps_round *round, const ps_stretch *v)
{
    float share = (float)round->share;

    for (size_t i = 0; i < v->n; i++) {
        v->p[i] = share * (v->w[i] - v->x[i]);
    }
}

void ps_local_contribute_sum(const ps_round *round, const ps_stretch *v)
{
    (void)round;
    for (size_t i = 0; i < v->n; i++) {
        v->p[i] = v->w[i] - v->x[i];
    }
}

void ps_local_adopt_ahead(const ps_round *round, const ps_stretch *v)
{
    (void)round;
    memcpy(v->x, v->w, v->n * sizeof *v->x);
    memcpy(v->slots, v->w, v->n * sizeof *v->slots);
}

void ps_local_contribute_ahead(const ps_round *round, const ps_stretch *v, float compensation)
{
    float share = (float)round->share, part = v->is_state ? 1.0f : compensation;
    float *begun = v->slots;

    for (size_t i = 0; i < v->n; i++) {
        float increment = begun[i] - v->x[i];

        v->p[i] = share * increment;
        v->x[i] = v->w[i] - part * increment;
        begun[i] = v->x[i];
    }
}

void ps_local_contribute_compensated(const ps_round *round, const ps_stretch *v)
{
    ps_local_contribute_ahead(round, v, (float)(round->params->v[1] * round->compensation_factor));
}

void ps_local_contribute_forward(const ps_round *round, const ps_stretch *v)
{
    float share = (float)round->share, *begun = v->slots;

    for (size_t i = 0; i < v->n; i++) {
        float x = v->x[i] + (v->w[i] - begun[i]);

        v->p[i] = share * (v->w[i] - x);
        v->x[i] = x;
        begun[i] = x;
    }
}

uint32_t ps_local_sample(const ps_local *local, const ps_params *params, uint64_t seed,
                         uint64_t clock, uint32_t workers, bool *is_in)
{
    double fraction = local->fraction != NULL ? local->fraction(params) : 1.0;
    uint32_t taken = (uint32_t)ceil(fraction * (double)workers), *order;

    taken = taken < 1 ? 1 : taken > workers ? workers : taken;
    for (uint32_t i = 0; i < workers; i++) {
        is_in[i] = taken == workers;
    }
    if (taken < workers) {
        order = ps_xcalloc(workers, sizeof *order);
        ps_draw_permutation(ps_draw_key(seed, PS_DRAW_WORKERS, clock, 0, 0), order, workers);
        for (uint32_t i = 0; i < taken; i++) {
            is_in[order[i]] = true;
        }
        free(order);
    }
    return taken;
}

uint64_t ps_local_clocks(const ps_local *local, const ps_params *params, uint64_t steps)
{
    uint64_t clock = 0, done = 0, settled = local->settles != NULL ? local->settles(params) : 0;
    uint32_t each = local->steps(params, settled);

    for (; done < steps && clock < settled; clock++) {
        done += local->steps(params, clock);
    }
    return done < steps ? clock + (steps - done + each - 1) / each : clock;
}
