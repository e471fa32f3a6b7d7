/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - a range of a sample: some values of a row, or some channels of an image. */
#include "common/nn/layer.h"

#include <string.h>

enum { FIRST, COUNT };

static const ps_param slice_params[] = {
    {.name = "first",
     .value = 0,
     .min = 0,
     .max = 1 << 24,
     .is_integer = true,
     .help = "number of the first value or channel, from 0"},
    {.name = "count",
     .value = 0,
     .min = 0,
     .max = 1 << 24,
     .is_integer = true,
     .help = "values or channels; 0: all from the first on"},
    {.name = NULL},
};

static ps_status slice_plan(ps_layer_plan *plan)
{
    uint32_t first = (uint32_t)plan->params.v[FIRST], count = (uint32_t)plan->params.v[COUNT];
    uint32_t all = plan->in.dim[0];

    if (first >= all || count > all - first) {
        return ps_fail(PS_INVALID_ARGUMENT, "slice: %u from %u on, and there are %u", count, first,
                       all);
    }
    plan->out = plan->in;
    plan->out.dim[0] = count == 0 ? all - first : count;
    return ps_ok();
}

/* Returns the number of a sample's values that lie before the range. */
static size_t before(const ps_layer_plan *plan)
{
    return ps_shape_size(&plan->in) / plan->in.dim[0] * (size_t)plan->params.v[FIRST];
}

static void slice_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                          const float *x, float *y, float *tape, size_t n)
{
    size_t in = ps_shape_size(&plan->in), out = ps_shape_size(&plan->out), skip = before(plan);

    (void)pass;
    (void)w;
    (void)tape;
    for (size_t i = 0; i < n; i++) {
        memcpy(y + i * out, x + i * in + skip, out * sizeof *y);
    }
}

static void slice_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                           const float *x, const float *y, float *tape, const float *dy,
                           float *const *dw, float *dx, size_t n)
{
    size_t in = ps_shape_size(&plan->in), out = ps_shape_size(&plan->out), skip = before(plan);

    (void)pass;
    (void)w;
    (void)x;
    (void)y;
    (void)tape;
    (void)dw;
    for (size_t i = 0; dx != NULL && i < n; i++) {
        float *row = dx + i * in;

        memset(row, 0, skip * sizeof *row);
        memcpy(row + skip, dy + i * out, out * sizeof *row);
        memset(row + skip + out, 0, (in - skip - out) * sizeof *row);
    }
}

const ps_layer ps_layer_slice = {
    .kind = "slice",
    .summary = "y = x[first .. first + count), along the first dimension",
    .params = slice_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = slice_plan,
    .forward = slice_forward,
    .backward = slice_backward,
};
