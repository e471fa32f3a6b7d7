/* SPDX-License-Identifier: Apache-2.0 */
/* shortcut.c - the shortcut without variables of a residual block that changes the size of
 * images: it takes every stride-th row and column, and appends channels of zeros (He et al. 2016,
 * section 4.2, option A).
 */
#include "common/nn/layer.h"

#include <string.h>

enum { CHANNELS, STRIDE };

static const ps_param shortcut_params[] = {
    {.name = "channels",
     .value = 0,
     .min = 0,
     .max = 65536,
     .is_integer = true,
     .help = "channels that come out, at least those that go in; 0: as many"},
    {.name = "stride",
     .value = 2,
     .min = 1,
     .max = 255,
     .is_integer = true,
     .help = "values from one that is taken to the next, both ways"},
    {.name = NULL},
};

static ps_status shortcut_plan(ps_layer_plan *plan)
{
    uint32_t channels = (uint32_t)plan->params.v[CHANNELS], chw[3];
    uint32_t stride = (uint32_t)plan->params.v[STRIDE];
    ps_status st = ps_layer_image(plan, "shortcut", chw);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (channels != 0 && channels < chw[0]) {
        return ps_fail(PS_INVALID_ARGUMENT, "shortcut: %u channels from %u, which are more",
                       channels, chw[0]);
    }
    plan->out = (ps_shape){.rank = 3,
                           .dim = {channels != 0 ? channels : chw[0], (chw[1] - 1) / stride + 1,
                                   (chw[2] - 1) / stride + 1}};
    return ps_ok();
}

static void shortcut_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                             const float *x, float *y, float *tape, size_t n)
{
    size_t in = ps_shape_size(&plan->in), out = ps_shape_size(&plan->out);
    size_t rows = plan->out.dim[1], columns = plan->out.dim[2];
    size_t held = plan->in.dim[0] * rows * columns, stride = (size_t)plan->params.v[STRIDE];

    (void)pass;
    (void)w;
    (void)tape;
    for (size_t i = 0; i < n; i++) {
        float *to = y + i * out;

        for (size_t c = 0; c < plan->in.dim[0]; c++) {
            const float *plane = x + i * in + c * plan->in.dim[1] * plan->in.dim[2];

            for (size_t r = 0; r < rows; r++) {
                for (size_t k = 0; k < columns; k++) {
                    to[(c * rows + r) * columns + k] =
                        plane[r * stride * plan->in.dim[2] + k * stride];
                }
            }
        }
        memset(to + held, 0, (out - held) * sizeof *to);
    }
}

static void shortcut_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                              const float *x, const float *y, float *tape, const float *dy,
                              float *const *dw, float *dx, size_t n)
{
    size_t in = ps_shape_size(&plan->in), out = ps_shape_size(&plan->out);
    size_t rows = plan->out.dim[1], columns = plan->out.dim[2];
    size_t stride = (size_t)plan->params.v[STRIDE];

    (void)pass;
    (void)w;
    (void)x;
    (void)y;
    (void)tape;
    (void)dw;
    if (dx == NULL) {
        return;
    }
    memset(dx, 0, n * in * sizeof *dx);
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < plan->in.dim[0]; c++) {
            float *plane = dx + i * in + c * plan->in.dim[1] * plan->in.dim[2];

            for (size_t r = 0; r < rows; r++) {
                for (size_t k = 0; k < columns; k++) {
                    plane[r * stride * plan->in.dim[2] + k * stride] =
                        dy[i * out + (c * rows + r) * columns + k];
                }
            }
        }
    }
}

const ps_layer ps_layer_shortcut = {
    .kind = "shortcut",
    .summary = "y[c, r, k] = x[c, r stride, k stride], 0 for channels that x has not",
    .params = shortcut_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = shortcut_plan,
    .forward = shortcut_forward,
    .backward = shortcut_backward,
};
