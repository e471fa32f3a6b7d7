/* SPDX-License-Identifier: Apache-2.0 */
/* add.c - adds inputs of the same shape, as at the end of a residual block (He et al. 2016). The
 * gradient of each input is the gradient of the sum.
 */
#include "common/base/clones.h"
#include "common/nn/layer.h"

static ps_status add_plan(ps_layer_plan *plan)
{
    if (plan->input_count < 2) {
        return ps_fail(PS_INVALID_ARGUMENT, "add: %u inputs, 2 to %d are allowed",
                       plan->input_count, PS_LAYER_INPUTS_MAX);
    }
    for (uint32_t k = 1; k < plan->input_count; k++) {
        if (!ps_shape_equal(&plan->ins[0], &plan->ins[k])) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "add: input %u has another shape than input 0: %zu values, not %zu", k,
                           ps_shape_size(&plan->ins[k]), ps_shape_size(&plan->ins[0]));
        }
    }
    plan->out = plan->in;
    return ps_ok();
}

PS_CLONES(add_two, (a, b, y, n), const float *a, const float *b, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}

PS_CLONES(add_another, (a, y, n), const float *restrict a, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += a[i];
    }
}

static void add_forward(const ps_layer_plan *plan, const float *const *x, float *y, size_t n)
{
    size_t values = n * ps_shape_size(&plan->in);

    add_two(x[0], x[1], y, values);
    for (uint32_t k = 2; k < plan->input_count; k++) {
        add_another(x[k], y, values);
    }
}

const ps_layer ps_layer_add = {
    .kind = "add",
    .summary = "y = the sum of all inputs, of one shape",
    .inputs_max = PS_LAYER_INPUTS_MAX,
    .passes_slope = true,
    .forward_by_sample = true,
    .plan = add_plan,
    .forward_many = add_forward,
};
