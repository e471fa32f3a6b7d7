/* SPDX-License-Identifier: Apache-2.0 */
/* geo_sum_lag.c - the geo mode of Paddle Fleet. With T workers, a worker sends a T-th of the
 * difference between its weights and `old`, what it believes the servers have. It adds the
 * servers' changes to its own weights while it trains on. `old` moves only by what was sent, so
 * the rest is sent in later rounds: the servers approach the sum of all workers' increments,
 * geometrically with the factor 1 - 1/T.
 *     receive: x += w - old; old = w
 *     send:    d = (x - old) / T; old += d; w += d at the servers
 *
 * Dense variables send from the whole remainder in every round. Of sparse variables Fleet sends
 * only the rows that this worker touched in the round. The remainder of a rare row then waits
 * until the row is touched again, and the servers' model lacks it. Here a row that was not
 * touched for `idle_rounds` rounds sends its whole remainder once, and all waiting rows do when
 * the training ends. With idle_rounds 0 neither happens, as in Fleet. Rows that are not sent are
 * zeros, which a codec with rows (docs/codecs.md) does not carry. State of layers is averaged, as
 * in geo_average.
 *
 * Rows of tables that grow are held for one round only, so nothing of a remainder could be kept:
 * their whole difference is sent at once, and the round after begins with what the servers have.
 */
#include "common/update/update.h"

enum { STEPS, IDLE_ROUNDS };

static const ps_param geo_sum_lag_params[] = {
    PS_LOCAL_STEPS_PARAM(25),
    {.name = "idle_rounds",
     .value = 8,
     .min = 0,
     .max = 1e9,
     .is_integer = true,
     .help = "rounds after which an idle row of an embedding sends its whole remainder; 0: never"},
    {.name = NULL},
};

/* Returns the part of a row's remainder to send: `part` if the round touched the row. If the row
 * has been idle for idle_rounds rounds, or the round is the last, returns 1 and sets *touched to 0,
 * as nothing is left then; not if idle_rounds is 0. Otherwise returns 0: the row waits, or nothing
 * of it is left. */
static float part_of(const ps_round *round, uint64_t *touched, float part)
{
    uint64_t idle = round->clock + 1 - *touched;
    bool flushes = round->params->v[IDLE_ROUNDS] > 0;

    if (*touched == 0 || idle == 0) {
        return *touched == 0 ? 0.0f : part;
    }
    if (flushes && (round->is_last || (double)idle >= round->params->v[IDLE_ROUNDS])) {
        *touched = 0;
        return 1.0f;
    }
    return 0.0f;
}

static void contribute_rows(const ps_round *round, const ps_stretch *v)
{
    float share = (float)(1.0 / (double)round->workers), *old = v->slots;

    for (size_t row = 0; row < v->n / v->row; row++) {
        bool is_ahead = v->touched[row] > 0;
        float part = part_of(round, &v->touched[row], share);

        for (size_t i = row * v->row; i < (row + 1) * v->row; i++) {
            float x = is_ahead ? v->x[i] + (v->w[i] - old[i]) : v->w[i];
            float d = part * (x - v->w[i]);

            v->x[i] = x;
            v->p[i] = -d;
            old[i] = v->w[i] + d;
        }
    }
}

static void geo_sum_lag_contribute(const ps_round *round, const ps_stretch *v)
{
    float part = (float)(1.0 / (double)round->workers), *old = v->slots;

    if (v->is_state) {
        ps_local_contribute_forward(round, v);
        return;
    }
    if (v->row > 0) {
        contribute_rows(round, v);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        float x = v->x[i] + (v->w[i] - old[i]), d = part * (x - v->w[i]);

        v->x[i] = x;
        v->p[i] = -d;
        old[i] = v->w[i] + d;
    }
}

static const ps_local geo_sum_lag_local = {
    .is_overlapped = true,
    .tracks_rows = true,
    .slots = 1,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .adopt = ps_local_adopt_ahead,
    .contribute = geo_sum_lag_contribute,
    .contribute_rows = ps_local_contribute_sum,
};

const ps_update ps_update_geo_sum_lag = {
    .name = "geo_sum_lag",
    .summary = "sends a share of its difference to the shared weights, keeps the rest: a sum with "
               "lag (Fleet's geo)",
    .params = geo_sum_lag_params,
    .merge_scale = ps_update_merge_sum,
    .local = &geo_sum_lag_local,
};
