/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_average.c - every worker steps by its own rule, and the weights become the mean of
 * the workers' parameters: w = sum a_i x_i. A worker sends a_i (w - x_i), and servers subtract
 * the sum: the same mean, but codecs lose less of small numbers than of large ones. */
#include "common/update/update.h"

static const ps_param parameter_average_params[] = {
    PS_LOCAL_STEPS_PARAM(1),
    {.name = NULL},
};

static const ps_local parameter_average_local = {
    .inner = {.name = "adam"},
    .outer = PS_LOCAL_OUTER_PLAIN,
    .steps = ps_local_steps,
    .contribute = ps_local_contribute_mean,
    .contribute_rows = ps_local_contribute_mean,
};

const ps_update ps_update_parameter_average = {
    .name = "parameter_average",
    .summary = "each worker steps by its own rule; the weights become the mean of their parameters",
    .params = parameter_average_params,
    .merge_scale = ps_update_merge_sum,
    .local = &parameter_average_local,
};
