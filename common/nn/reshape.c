/* SPDX-License-Identifier: Apache-2.0 */
/* reshape.c - the same values of a sample in another shape. A view: no value is copied. */
#include "common/nn/layer.h"

enum { CHANNELS, ROWS, COLUMNS };

static const ps_param reshape_params[] = {
    {.name = "channels",
     .value = 0,
     .min = 0,
     .max = 1 << 20,
     .is_integer = true,
     .help = "channels; 0: as many as there are values for"},
    {.name = "rows",
     .value = 0,
     .min = 0,
     .max = 1 << 20,
     .is_integer = true,
     .help = "rows; 0 for rows and columns: no image, one dimension"},
    {.name = "columns",
     .value = 0,
     .min = 0,
     .max = 1 << 20,
     .is_integer = true,
     .help = "columns"},
    {.name = NULL},
};

static ps_status reshape_plan(ps_layer_plan *plan)
{
    size_t size = ps_shape_size(&plan->in);
    uint32_t channels = (uint32_t)plan->params.v[CHANNELS];
    uint32_t rows = (uint32_t)plan->params.v[ROWS], columns = (uint32_t)plan->params.v[COLUMNS];
    size_t plane = (size_t)(rows == 0 ? 1 : rows) * (columns == 0 ? 1 : columns);

    if (size > PS_TENSOR_MAX || size % plane != 0 || (channels != 0 && channels * plane != size)) {
        return ps_fail(PS_INVALID_ARGUMENT, "reshape: %zu values do not fill %u x %u x %u", size,
                       channels, rows, columns);
    }
    plan->out = (ps_shape){
        .rank = rows == 0 && columns == 0 ? 1 : 3,
        .dim = {(uint32_t)(size / plane), rows == 0 ? 1 : rows, columns == 0 ? 1 : columns},
    };
    return ps_ok();
}

const ps_layer ps_layer_reshape = {
    .kind = "reshape",
    .summary = "y = x in the shape (channels, rows, columns)",
    .params = reshape_params,
    .plan = reshape_plan,
};
