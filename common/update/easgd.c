/* SPDX-License-Identifier: Apache-2.0 */
/* easgd.c - elastic averaging (Zhang, Choromanska, LeCun 2015): the replica x_i of each of N
 * workers and the centre w attract each other once in K steps,
 *     x_i -= alpha (x_i - w), w += alpha sum (x_i - w), alpha = beta / N.
 * The centre is the model that the job leaves. */
#include "common/update/update.h"

enum { STEPS, BETA };

static const ps_param easgd_params[] = {
    PS_LOCAL_STEPS_PARAM(8),
    {.name = "beta",
     .value = 0.9,
     .min = 0.001,
     .max = 1,
     .help =
         "share of the way to the replicas' mean that the centre moves; alpha = beta / workers"},
    {.name = NULL},
};

static void easgd_contribute(const ps_round *round, const ps_stretch *v)
{
    float alpha = (float)(round->params->v[BETA] / (double)round->workers);

    for (size_t i = 0; i < v->n; i++) {
        float pull = alpha * (v->x[i] - v->w[i]);

        v->x[i] -= pull;
        v->p[i] = -pull;
    }
}

static const ps_local easgd_local = {
    .is_overlapped = true,
    .inner = {.name = "sgd"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .contribute = easgd_contribute,
};

const ps_update ps_update_easgd = {
    .name = "easgd",
    .summary = "replica and centre attract each other once in `steps` steps (elastic averaging)",
    .params = easgd_params,
    .merge_scale = ps_update_merge_sum,
    .local = &easgd_local,
};
