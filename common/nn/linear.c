/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - the identity, for lists of layers that need an activation. A view: no value is
 * copied. */
#include "common/nn/layer.h"

static ps_status linear_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

const ps_layer ps_layer_linear = {
    .kind = "linear",
    .summary = "y = x",
    .plan = linear_plan,
};
