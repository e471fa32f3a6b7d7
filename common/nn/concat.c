/* SPDX-License-Identifier: Apache-2.0 */
/* concat.c - concatenates inputs: the channels of images of one size, or the values of rows. A
 * sample's values of the first input come first, then those of the second.
 */
#include "common/nn/layer.h"

#include <string.h>

static ps_status concat_plan(ps_layer_plan *plan)
{
    size_t first = 0;

    if (plan->input_count < 2) {
        return ps_fail(PS_INVALID_ARGUMENT, "concat: %u inputs, 2 to %d are allowed",
                       plan->input_count, PS_LAYER_INPUTS_MAX);
    }
    for (uint32_t k = 0; k < plan->input_count; k++) {
        ps_shape like = plan->ins[k];

        first += like.dim[0];
        like.dim[0] = plan->in.dim[0];
        if (!ps_shape_equal(&plan->in, &like)) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "concat: input %u differs from input 0 in more than its first dimension",
                           k);
        }
    }
    if (first > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "concat: %zu values side by side, %d are allowed",
                       first, PS_TENSOR_MAX);
    }
    plan->out = plan->in;
    plan->out.dim[0] = (uint32_t)first;
    return ps_ok();
}

static void concat_forward(const ps_layer_plan *plan, const float *const *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < plan->input_count; k++) {
            size_t size = ps_shape_size(&plan->ins[k]);

            memcpy(y, x[k] + i * size, size * sizeof *y);
            y += size;
        }
    }
}

static void concat_backward(const ps_layer_plan *plan, const float *const *x, const float *dy,
                            float *const *dx, size_t n)
{
    (void)x;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < plan->input_count; k++) {
            size_t size = ps_shape_size(&plan->ins[k]);

            if (dx[k] != NULL) {
                memcpy(dx[k] + i * size, dy, size * sizeof *dy);
            }
            dy += size;
        }
    }
}

const ps_layer ps_layer_concat = {
    .kind = "concat",
    .summary = "y = all inputs side by side; shapes differ in the first dimension at most",
    .inputs_max = PS_LAYER_INPUTS_MAX,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = concat_plan,
    .forward_many = concat_forward,
    .backward_many = concat_backward,
};
