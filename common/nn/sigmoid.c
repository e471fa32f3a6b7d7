/* SPDX-License-Identifier: Apache-2.0 */
/* sigmoid.c - the logistic function of every value. */
#include "common/base/clones.h"
#include "common/nn/layer.h"
#include "common/nn/math32.h"

static ps_status sigmoid_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

PS_CLONES(sigmoid_values, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = ps_sigmoid_f32(x[i]);
    }
}

PS_CLONES(sigmoid_slopes, (y, dy, dx, n), const float *restrict y, const float *restrict dy,
          float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
    }
}

static void sigmoid_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                            const float *x, float *y, float *tape, size_t n)
{
    (void)pass;
    (void)w;
    (void)tape;
    sigmoid_values(x, y, n * ps_shape_size(&plan->in));
}

static void sigmoid_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                             const float *x, const float *y, float *tape, const float *dy,
                             float *const *dw, float *dx, size_t n)
{
    (void)pass;
    (void)w;
    (void)x;
    (void)tape;
    (void)dw;
    if (dx != NULL) {
        sigmoid_slopes(y, dy, dx, n * ps_shape_size(&plan->in));
    }
}

const ps_layer ps_layer_sigmoid = {
    .kind = "sigmoid",
    .summary = "y = 1 / (1 + e^-x)",
    .plan = sigmoid_plan,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
};
