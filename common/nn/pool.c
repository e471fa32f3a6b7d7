/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h. */
#include "common/nn/pool.h"

static size_t stride_of(const ps_params *params)
{
    return (size_t)params->v[params->v[PS_POOL_STRIDE] == 0.0 ? PS_POOL_KERNEL : PS_POOL_STRIDE];
}

ps_status ps_pool_plan(ps_layer_plan *plan, const char *kind)
{
    uint32_t kernel = (uint32_t)plan->params.v[PS_POOL_KERNEL];
    uint32_t padding = (uint32_t)plan->params.v[PS_POOL_PADDING];
    uint32_t stride = (uint32_t)stride_of(&plan->params);
    uint32_t chw[3];
    ps_status st = ps_layer_image(plan, kind, chw);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (2 * padding > kernel || chw[1] > PS_TENSOR_MAX || chw[2] > PS_TENSOR_MAX ||
        kernel > chw[1] + 2 * padding || kernel > chw[2] + 2 * padding) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "%s: a window of %u x %u does not fit an image of %u x %u with %u around, of "
            "which half a window is allowed",
            kind, kernel, kernel, chw[1], chw[2], padding);
    }
    plan->out = (ps_shape){.rank = 3,
                           .dim = {chw[0], (chw[1] + 2 * padding - kernel) / stride + 1,
                                   (chw[2] + 2 * padding - kernel) / stride + 1}};
    return ps_ok();
}

ps_pool ps_pool_of(const ps_layer_plan *plan)
{
    return (ps_pool){
        .rows = plan->in.dim[1],
        .columns = plan->in.dim[2],
        .out_rows = plan->out.dim[1],
        .out_columns = plan->out.dim[2],
        .kernel = (size_t)plan->params.v[PS_POOL_KERNEL],
        .stride = stride_of(&plan->params),
        .padding = (size_t)plan->params.v[PS_POOL_PADDING],
    };
}
