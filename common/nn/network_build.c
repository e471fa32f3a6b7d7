/* SPDX-License-Identifier: Apache-2.0 */
/* network_build.c - see network_build.h. */
#include "common/nn/network_build.h"

#include <assert.h>
#include <stdio.h>

void ps_network_set(ps_layer_spec *spec, const char *number, double value)
{
    int at = ps_param_find(spec->layer->params, number);

    assert(at >= 0);
    spec->params.v[at] = value;
}

ps_layer_spec *ps_network_add(ps_network_build *net, const char *kind, const char *name)
{
    ps_layer_spec *spec = &net->specs[net->count];

    assert(net->count < PS_MODEL_LAYERS_MAX);
    *spec = (ps_layer_spec){.layer = ps_layer_find(kind)};
    assert(spec->layer != NULL);
    spec->params = ps_params_default(spec->layer->params);
    if (ps_param_find(spec->layer->params, "init") >= 0) {
        ps_network_set(spec, "init", PS_INIT_RULE_PYTORCH);
    }
    if (name != NULL) {
        snprintf(spec->name, sizeof spec->name, "%s", name);
    } else {
        snprintf(spec->name, sizeof spec->name, "%s%zu", kind, net->count);
    }
    net->count++;
    return spec;
}

void ps_network_read(ps_layer_spec *spec, uint32_t first)
{
    spec->input_count = 1;
    spec->inputs[0] = first;
}

void ps_network_read_both(ps_layer_spec *spec, uint32_t first, uint32_t second)
{
    spec->input_count = 2;
    spec->inputs[0] = first;
    spec->inputs[1] = second;
}

void ps_network_add_lines(ps_network_build *net, const ps_network_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ps_layer_spec *spec = ps_network_add(net, lines[i].kind, lines[i].name);

        for (size_t k = 0; k < PS_NETWORK_NUMBERS_MAX && lines[i].numbers[k].name != NULL; k++) {
            double value = lines[i].numbers[k].value;

            ps_network_set(spec, lines[i].numbers[k].name,
                           value == 0.0 ? (double)net->facts->outputs : value);
        }
    }
}
