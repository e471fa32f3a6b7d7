/* SPDX-License-Identifier: Apache-2.0 */
/* channel_dropout.c - in training sets some whole channels to zero and scales up the others
 * (Tompson et al. 2015). The outermost dimension counts as channels.
 *
 * Channel c of sample i is set to zero if draw i C + c of the pass's key is below the rate.
 * Backward makes the same draws again, so nothing is kept.
 */
#include "common/base/clones.h"
#include "common/base/draw.h"
#include "common/nn/layer.h"

#include <string.h>

enum { RATE };

static const ps_param channel_dropout_params[] = {
    {.name = "rate",
     .value = 0.5,
     .min = 0,
     .max = 0.99,
     .help = "share of the channels that are left out"},
    {.name = NULL},
};

static ps_status channel_dropout_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

PS_CLONES(scale_values, (scale, x, y, n), float scale, const float *restrict x, float *restrict y,
          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = scale * x[i];
    }
}

static void apply(const ps_layer_plan *plan, const ps_pass *pass, const float *x, float *y,
                  size_t n)
{
    size_t size = ps_shape_size(&plan->in), channels = plan->in.dim[0], plane = size / channels;
    double rate = plan->params.v[RATE];
    uint32_t key = (uint32_t)(pass->key >> 32), limit = (uint32_t)(rate * 4294967296.0);

    if (!pass->is_training) {
        memcpy(y, x, n * size * sizeof *y);
        return;
    }
    for (size_t i = 0; i < n * channels; i++) {
        if (ps_draw_u32(key, (uint32_t)(pass->first * channels + i)) < limit) {
            memset(y + i * plane, 0, plane * sizeof *y);
        } else {
            scale_values((float)(1.0 / (1.0 - rate)), x + i * plane, y + i * plane, plane);
        }
    }
}

static void channel_dropout_forward(const ps_layer_plan *plan, const ps_pass *pass,
                                    const float *const *w, const float *x, float *y, float *tape,
                                    size_t n)
{
    (void)w;
    (void)tape;
    apply(plan, pass, x, y, n);
}

static void channel_dropout_backward(const ps_layer_plan *plan, const ps_pass *pass,
                                     const float *const *w, const float *x, const float *y,
                                     float *tape, const float *dy, float *const *dw, float *dx,
                                     size_t n)
{
    (void)w;
    (void)x;
    (void)y;
    (void)tape;
    (void)dw;
    if (dx != NULL) {
        apply(plan, pass, dy, dx, n);
    }
}

const ps_layer ps_layer_channel_dropout = {
    .kind = "channel_dropout",
    .summary =
        "in training y = 0 for a share `rate` of the channels, x / (1 - rate) for the others; "
        "else y = x",
    .params = channel_dropout_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = channel_dropout_plan,
    .forward = channel_dropout_forward,
    .backward = channel_dropout_backward,
};
