/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c - converts the values of a sample to probabilities.
 *
 * With greatest value m: y_j = e^(x_j - m) / sum of the numerators, and dx_j = y_j (dy_j - sum_k
 * dy_k y_k). Do not use it in front of softmax_cross_entropy, which has a softmax of its own.
 */
#include "common/nn/layer.h"
#include "common/nn/math32.h"

static ps_status softmax_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

static void softmax_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                            const float *x, float *y, float *tape, size_t n)
{
    size_t width = ps_shape_size(&plan->in);

    (void)pass;
    (void)w;
    (void)tape;
    for (size_t i = 0; i < n; i++, x += width, y += width) {
        float max = x[0];
        double sum = 0.0;

        for (size_t j = 1; j < width; j++) {
            max = x[j] > max ? x[j] : max;
        }
        for (size_t j = 0; j < width; j++) {
            y[j] = ps_exp_f32(x[j] - max);
            sum += (double)y[j];
        }
        for (size_t j = 0; j < width; j++) {
            y[j] *= (float)(1.0 / sum);
        }
    }
}

static void softmax_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                             const float *x, const float *y, float *tape, const float *dy,
                             float *const *dw, float *dx, size_t n)
{
    size_t width = ps_shape_size(&plan->in);

    (void)pass;
    (void)w;
    (void)x;
    (void)tape;
    (void)dw;
    for (size_t i = 0; dx != NULL && i < n; i++, y += width, dy += width, dx += width) {
        double sum = 0.0;

        for (size_t j = 0; j < width; j++) {
            sum += (double)dy[j] * (double)y[j];
        }
        for (size_t j = 0; j < width; j++) {
            dx[j] = y[j] * (dy[j] - (float)sum);
        }
    }
}

const ps_layer ps_layer_softmax = {
    .kind = "softmax",
    .summary = "y_j = e^x_j / sum_k e^x_k over all values of a sample",
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = softmax_plan,
    .forward = softmax_forward,
    .backward = softmax_backward,
};
