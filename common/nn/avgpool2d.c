/* SPDX-License-Identifier: Apache-2.0 */
/* avgpool2d.c - the mean of each window; values in the padding count as zeros. */
#include "common/nn/pool.h"

#include <string.h>

static const ps_param avgpool2d_params[] = {
    PS_POOL_PARAM_LINES,
    {.name = NULL},
};

static ps_status avgpool2d_plan(ps_layer_plan *plan)
{
    return ps_pool_plan(plan, "avgpool2d");
}

static float share_of(const ps_pool *at)
{
    return 1.0f / (float)(at->kernel * at->kernel);
}

static void avgpool2d_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                              const float *x, float *y, float *tape, size_t n)
{
    ps_pool at = ps_pool_of(plan);
    size_t planes = n * plan->in.dim[0];

    (void)pass;
    (void)w;
    (void)tape;
    for (size_t p = 0; p < planes; p++, x += at.rows * at.columns) {
        for (size_t r = 0; r < at.out_rows; r++) {
            for (size_t c = 0; c < at.out_columns; c++) {
                size_t left = ps_pool_from(&at, c), right = ps_pool_to(&at, c, at.columns);
                float sum = 0.0f;

                for (size_t i = ps_pool_from(&at, r); i < ps_pool_to(&at, r, at.rows); i++) {
                    for (size_t j = left; j < right; j++) {
                        sum += x[i * at.columns + j];
                    }
                }
                *y++ = sum * share_of(&at);
            }
        }
    }
}

static void avgpool2d_backward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, const float *y, float *tape,
                               const float *dy, float *const *dw, float *dx, size_t n)
{
    ps_pool at = ps_pool_of(plan);
    size_t planes = n * plan->in.dim[0], in = at.rows * at.columns;

    (void)pass;
    (void)w;
    (void)x;
    (void)y;
    (void)tape;
    (void)dw;
    if (dx == NULL) {
        return;
    }
    memset(dx, 0, planes * in * sizeof *dx);
    for (size_t p = 0; p < planes; p++, dx += in) {
        for (size_t r = 0; r < at.out_rows; r++) {
            for (size_t c = 0; c < at.out_columns; c++) {
                size_t left = ps_pool_from(&at, c), right = ps_pool_to(&at, c, at.columns);
                float share = *dy++ * share_of(&at);

                for (size_t i = ps_pool_from(&at, r); i < ps_pool_to(&at, r, at.rows); i++) {
                    for (size_t j = left; j < right; j++) {
                        dx[i * at.columns + j] += share;
                    }
                }
            }
        }
    }
}

const ps_layer ps_layer_avgpool2d = {
    .kind = "avgpool2d",
    .summary = "y = the mean of each window of kernel x kernel, zeros of the padding included",
    .params = avgpool2d_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = avgpool2d_plan,
    .forward = avgpool2d_forward,
    .backward = avgpool2d_backward,
};
