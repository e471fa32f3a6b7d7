/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - networks by name: lists of layers, ready to be trained.
 *
 * To add one: a ps_network in a file like network_resnet.c, built with network_build.h, a line in
 * list.h and one in CMakeLists.txt.
 */
#ifndef PS_COMMON_NN_NETWORK_H
#define PS_COMMON_NN_NETWORK_H

#include "common/nn/network_build.h"

typedef struct ps_network {
    const char *name;
    const char *summary;    /* one line with the usual input and the number of parameters */
    const ps_param *params; /* (optional) */
    const char *loss;       /* (optional) its usual loss; NULL: softmax_cross_entropy */
    PS_MUST_USE ps_status (*build)(ps_network_build *net);
} ps_network;

/* Returns the network with this name, or NULL if there is none. */
const ps_network *ps_network_find(const char *name);

/* Calls fn for each network, in the order of list.h. */
void ps_network_each(void (*fn)(const ps_network *network, void *arg), void *arg);

/* Fills specs (PS_MODEL_LAYERS_MAX) and *count. `params` are in the order of the network's table.
 * Returns INVALID_ARGUMENT, such as "needs ids", if the network does not fit the data. */
PS_MUST_USE ps_status ps_network_specs(const ps_network *network, const ps_network_facts *facts,
                                       const ps_params *params, ps_layer_spec *specs,
                                       size_t *count);

#endif
