/* SPDX-License-Identifier: Apache-2.0 */
/* leaky_relu.c - multiplies values below zero by a small factor. NaN stays NaN. The gradient at
 * zero is the factor. */
#include "common/base/clones.h"
#include "common/nn/layer.h"

enum { SLOPE };

static const ps_param leaky_relu_params[] = {
    {.name = "slope", .value = 0.01, .min = 0, .max = 1, .help = "factor of values below zero"},
    {.name = NULL},
};

static ps_status leaky_relu_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

PS_CLONES(leaky_values, (x, slope, y, n), const float *restrict x, float slope, float *restrict y,
          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float small = slope * x[i];

        y[i] = x[i] > 0.0f ? x[i] : small;
    }
}

PS_CLONES(leaky_slopes, (x, slope, dy, dx, n), const float *restrict x, float slope,
          const float *restrict dy, float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float whole = dy[i], small = slope * whole;

        dx[i] = x[i] > 0.0f ? whole : small;
    }
}

static void leaky_relu_forward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, float *y, float *tape,
                               size_t n)
{
    (void)pass;
    (void)w;
    (void)tape;
    leaky_values(x, (float)plan->params.v[SLOPE], y, n * ps_shape_size(&plan->in));
}

static void leaky_relu_backward(const ps_layer_plan *plan, const ps_pass *pass,
                                const float *const *w, const float *x, const float *y, float *tape,
                                const float *dy, float *const *dw, float *dx, size_t n)
{
    (void)pass;
    (void)w;
    (void)y;
    (void)tape;
    (void)dw;
    if (dx != NULL) {
        leaky_slopes(x, (float)plan->params.v[SLOPE], dy, dx, n * ps_shape_size(&plan->in));
    }
}

const ps_layer ps_layer_leaky_relu = {
    .kind = "leaky_relu",
    .summary = "y = x above zero, slope * x below",
    .params = leaky_relu_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = leaky_relu_plan,
    .forward = leaky_relu_forward,
    .backward = leaky_relu_backward,
};
