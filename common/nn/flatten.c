/* SPDX-License-Identifier: Apache-2.0 */
/* flatten.c - a sample as one row of values. A view: no value is copied. */
#include "common/nn/layer.h"

static ps_status flatten_plan(ps_layer_plan *plan)
{
    size_t size = ps_shape_size(&plan->in);

    if (size > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "flatten: %zu values go in, at most %d are allowed",
                       size, PS_TENSOR_MAX);
    }
    plan->out = (ps_shape){.rank = 1, .dim = {(uint32_t)size}};
    return ps_ok();
}

const ps_layer ps_layer_flatten = {
    .kind = "flatten",
    .summary = "y = x, as one dimension",
    .plan = flatten_plan,
};
