/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - see network.h and network_build.h. */
#include "common/nn/network.h"

#include "common/nn/network_build.h"

#include <string.h>

#define PS_NETWORK(name) extern const ps_network ps_network_##name;
#include "common/nn/list.h"
#undef PS_NETWORK

static const ps_network *const networks[] = {
#define PS_NETWORK(name) &ps_network_##name,
#include "common/nn/list.h"
#undef PS_NETWORK
};

enum { NETWORK_COUNT = sizeof networks / sizeof networks[0] };

const ps_network *ps_network_find(const char *name)
{
    for (size_t i = 0; i < NETWORK_COUNT; i++) {
        if (strcmp(networks[i]->name, name) == 0) {
            return networks[i];
        }
    }
    return NULL;
}

void ps_network_each(void (*fn)(const ps_network *network, void *arg), void *arg)
{
    for (size_t i = 0; i < NETWORK_COUNT; i++) {
        fn(networks[i], arg);
    }
}

ps_status ps_network_specs(const ps_network *network, const ps_network_facts *facts,
                           const ps_params *params, ps_layer_spec *specs, size_t *count)
{
    ps_network_build net = {.facts = facts, .params = *params, .specs = specs};
    ps_status st = network->build(&net);

    *count = net.count;
    return ps_is_ok(&st) ? st : ps_wrap(st, "%s", network->name);
}
