/* SPDX-License-Identifier: Apache-2.0 */
/* global_avgpool.c - computes the mean of each channel. The output has one value per channel. */
#include "common/nn/layer.h"
#include "common/nn/sums.h"

static ps_status global_avgpool_plan(ps_layer_plan *plan)
{
    uint32_t chw[3];
    ps_status st = ps_layer_image(plan, "global_avgpool", chw);

    if (ps_is_ok(&st)) {
        plan->out = (ps_shape){.rank = 1, .dim = {chw[0]}};
    }
    return st;
}

static void global_avgpool_forward(const ps_layer_plan *plan, const ps_pass *pass,
                                   const float *const *w, const float *x, float *y, float *tape,
                                   size_t n)
{
    size_t plane = (size_t)plan->in.dim[1] * plan->in.dim[2];

    (void)pass;
    (void)w;
    (void)tape;
    for (size_t i = 0; i < n * plan->in.dim[0]; i++) {
        y[i] = ps_sum_f32(x + i * plane, plane) / (float)plane;
    }
}

static void global_avgpool_backward(const ps_layer_plan *plan, const ps_pass *pass,
                                    const float *const *w, const float *x, const float *y,
                                    float *tape, const float *dy, float *const *dw, float *dx,
                                    size_t n)
{
    size_t plane = (size_t)plan->in.dim[1] * plan->in.dim[2];

    (void)pass;
    (void)w;
    (void)x;
    (void)y;
    (void)tape;
    (void)dw;
    for (size_t i = 0; dx != NULL && i < n * plan->in.dim[0]; i++) {
        float share = dy[i] / (float)plane;

        for (size_t j = 0; j < plane; j++) {
            dx[i * plane + j] = share;
        }
    }
}

const ps_layer ps_layer_global_avgpool = {
    .kind = "global_avgpool",
    .summary = "y = the mean of each channel",
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = global_avgpool_plan,
    .forward = global_avgpool_forward,
    .backward = global_avgpool_backward,
};
