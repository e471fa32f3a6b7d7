/* SPDX-License-Identifier: Apache-2.0 */
/* double_buffering.c - the gradient of step t travels while the gradient of step t + 1 is
 * computed, on weights that are one step older (Seide et al. 2014; Li et al. 2018, Pipe-SGD):
 *     w_(t+1) = w_t - step(mean g_i(w_(t-1))).
 * The gradient of the job's last step is applied too. */
#include "common/update/update.h"

static uint32_t double_buffering_steps(const ps_params *params, uint64_t clock)
{
    (void)params;
    (void)clock;
    return 1;
}

static void double_buffering_contribute(const ps_round *round, const ps_stretch *v)
{
    float share = (float)round->share;

    for (size_t i = 0; i < v->n; i++) {
        v->p[i] = share * v->g[i];
        v->x[i] = v->w[i];
    }
}

static const ps_local double_buffering_local = {
    .is_overlapped = true,
    .sends_gradients = true,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = double_buffering_steps,
    .contribute = double_buffering_contribute,
};

const ps_update ps_update_double_buffering = {
    .name = "double_buffering",
    .summary = "gradients travel while the next ones are computed, on weights one step older",
    .merge_scale = ps_update_merge_sum,
    .local = &double_buffering_local,
};
