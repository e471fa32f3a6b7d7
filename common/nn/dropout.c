/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - in training sets some values to zero and scales up the others (Srivastava et al.
 * 2014).
 *
 * Value i of a batch is set to zero if draw i of the pass's key is below the rate. Backward makes
 * the same draws again, so nothing is kept.
 */
#include "common/base/clones.h"
#include "common/base/draw.h"
#include "common/nn/layer.h"

#include <string.h>

enum { RATE };

static const ps_param dropout_params[] = {
    {.name = "rate",
     .value = 0.5,
     .min = 0,
     .max = 0.99,
     .help = "share of the values that are left out"},
    {.name = NULL},
};

static ps_status dropout_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

/* Computes y[i] = x[i] * scale if draw first + i is at least `limit`, else 0. */
PS_CLONES(thin, (key, first, limit, scale, x, y, n), uint32_t key, uint32_t first, uint32_t limit,
          float scale, const float *restrict x, float *restrict y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float kept = scale * x[i];

        y[i] = ps_draw_u32(key, first + i) < limit ? 0.0f : kept;
    }
}

static void apply(const ps_layer_plan *plan, const ps_pass *pass, const float *x, float *y,
                  size_t n)
{
    size_t size = ps_shape_size(&plan->in), count = n * size;
    double rate = plan->params.v[RATE];

    if (!pass->is_training) {
        memcpy(y, x, count * sizeof *y);
        return;
    }
    thin((uint32_t)(pass->key >> 32), (uint32_t)(pass->first * size),
         (uint32_t)(rate * 4294967296.0), (float)(1.0 / (1.0 - rate)), x, y, (uint32_t)count);
}

static void dropout_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                            const float *x, float *y, float *tape, size_t n)
{
    (void)w;
    (void)tape;
    apply(plan, pass, x, y, n);
}

static void dropout_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                             const float *x, const float *y, float *tape, const float *dy,
                             float *const *dw, float *dx, size_t n)
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

const ps_layer ps_layer_dropout = {
    .kind = "dropout",
    .summary = "in training y = 0 for a share `rate` of the values, x / (1 - rate) for the others; "
               "else y = x",
    .params = dropout_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
