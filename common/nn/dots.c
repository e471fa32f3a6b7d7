/* SPDX-License-Identifier: Apache-2.0 */
/* dots.c - the scalar products of one vector with each of several, for models of words.
 *
 * Letters: E values of a vector, K vectors. The first input has E values in any shape, the second
 * is (K, E).
 */
#include "common/base/clones.h"
#include "common/nn/layer.h"
#include "common/nn/sums.h"

static ps_status dots_plan(ps_layer_plan *plan)
{
    const ps_shape *one = &plan->ins[0], *many = &plan->ins[1];

    if (plan->input_count != 2 || many->rank != 2 || ps_shape_size(one) != (size_t)many->dim[1]) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "dots: needs two inputs, a vector and a matrix with rows as long; %u inputs, "
            "%zu values in the first",
            plan->input_count, ps_shape_size(one));
    }
    plan->out = (ps_shape){.rank = 1, .dim = {many->dim[0]}};
    return ps_ok();
}

static void dots_forward(const ps_layer_plan *plan, const float *const *x, float *y, size_t n)
{
    size_t vectors = plan->ins[1].dim[0], width = plan->ins[1].dim[1];

    for (size_t i = 0; i < n * vectors; i++) {
        y[i] = ps_sum_product_f32(x[0] + i / vectors * width, x[1] + i * width, width);
    }
}

PS_CLONES(scale_into, (by, a, to, width), float by, const float *restrict a, float *restrict to,
          size_t width)
{
    for (size_t j = 0; j < width; j++) {
        to[j] = by * a[j];
    }
}

PS_CLONES(scale_onto, (by, a, to, width), float by, const float *restrict a, float *restrict to,
          size_t width)
{
    for (size_t j = 0; j < width; j++) {
        to[j] += by * a[j];
    }
}

static void dots_backward(const ps_layer_plan *plan, const float *const *x, const float *dy,
                          float *const *dx, size_t n)
{
    size_t vectors = plan->ins[1].dim[0], width = plan->ins[1].dim[1];

    for (size_t i = 0; i < n * vectors; i++) {
        size_t sample = i / vectors;

        if (dx[0] != NULL && i % vectors == 0) {
            scale_into(dy[i], x[1] + i * width, dx[0] + sample * width, width);
        } else if (dx[0] != NULL) {
            scale_onto(dy[i], x[1] + i * width, dx[0] + sample * width, width);
        }
        if (dx[1] != NULL) {
            scale_into(dy[i], x[0] + sample * width, dx[1] + i * width, width);
        }
    }
}

const ps_layer ps_layer_dots = {
    .kind = "dots",
    .summary = "y[k] = sum_j a[j] b[k, j] of two inputs, a vector and a matrix",
    .inputs_max = 2,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = dots_plan,
    .forward_many = dots_forward,
    .backward_many = dots_backward,
};
