/* SPDX-License-Identifier: Apache-2.0 */
/* network_linear.c - one dense layer: linear or logistic regression, depending on the loss. */
#include "common/nn/network.h"

static ps_status build(ps_network_build *net)
{
    if (net->facts->ids > 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "needs numbers, and the data set has ids");
    }
    ps_network_set(ps_network_add(net, "dense", "fc"), "units", net->facts->outputs);
    return ps_ok();
}

const ps_network ps_network_linear = {
    .name = "linear",
    .summary = "one dense layer: (features + 1) * outputs parameters",
    .build = build,
};
