/* SPDX-License-Identifier: Apache-2.0 */
/* relu.c - nothing below zero; NaN stays NaN, and the slope at zero is zero. */
#include "common/base/clones.h"
#include "common/nn/layer.h"

static ps_status relu_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

PS_CLONES(relu_values, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}

PS_CLONES(relu_slopes, (y, dy, dx, n), const float *restrict y, const float *restrict dy,
          float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope = dy[i]; /* read in any case: else only masked loads would vectorise */

        dx[i] = y[i] > 0.0f ? slope : 0.0f;
    }
}

static void relu_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                         const float *x, float *y, float *tape, size_t n)
{
    (void)pass;
    (void)w;
    (void)tape;
    relu_values(x, y, n * ps_shape_size(&plan->in));
}

static void relu_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                          const float *x, const float *y, float *tape, const float *dy,
                          float *const *dw, float *dx, size_t n)
{
    (void)pass;
    (void)w;
    (void)x;
    (void)tape;
    (void)dw;
    if (dx != NULL) {
        relu_slopes(y, dy, dx, n * ps_shape_size(&plan->in));
    }
}

const ps_layer ps_layer_relu = {
    .kind = "relu",
    .summary = "y = max(0, x)",
    .plan = relu_plan,
    .forward = relu_forward,
    .backward = relu_backward,
};
