/* SPDX-License-Identifier: Apache-2.0 */
/* hard_tanh.c - the value, cut to [-1, 1]; NaN stays NaN, and the slope at the ends is zero. */
#include "common/base/clones.h"
#include "common/nn/layer.h"

static ps_status hard_tanh_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

PS_CLONES(cut_values, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float low = x[i] < -1.0f ? -1.0f : x[i];

        y[i] = low > 1.0f ? 1.0f : low;
    }
}

PS_CLONES(cut_slopes, (y, dy, dx, n), const float *restrict y, const float *restrict dy,
          float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope = dy[i];
        float low = y[i] > -1.0f ? slope : 0.0f;

        dx[i] = y[i] < 1.0f ? low : 0.0f;
    }
}

static void hard_tanh_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                              const float *x, float *y, float *tape, size_t n)
{
    (void)pass;
    (void)w;
    (void)tape;
    cut_values(x, y, n * ps_shape_size(&plan->in));
}

static void hard_tanh_backward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, const float *y, float *tape,
                               const float *dy, float *const *dw, float *dx, size_t n)
{
    (void)pass;
    (void)w;
    (void)x;
    (void)tape;
    (void)dw;
    if (dx != NULL) {
        cut_slopes(y, dy, dx, n * ps_shape_size(&plan->in));
    }
}

const ps_layer ps_layer_hard_tanh = {
    .kind = "hard_tanh",
    .summary = "y = min(1, max(-1, x))",
    .plan = hard_tanh_plan,
    .forward = hard_tanh_forward,
    .backward = hard_tanh_backward,
};
