/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - networks that have a name: lists of layers, ready to be trained.
 *
 * To add one: a table in network.c and a line in its list there.
 */
#ifndef PS_COMMON_NN_NETWORK_H
#define PS_COMMON_NN_NETWORK_H

#include "common/nn/model.h"

typedef struct ps_network_layer ps_network_layer;

typedef struct ps_network {
    const char *name;
    const char *summary; /* the input it was made for, and its parameters with 10 classes */
    const ps_network_layer *layers;
    size_t count;
} ps_network;

const ps_network *ps_network_find(const char *name); /* NULL if there is none */
void ps_network_each(void (*fn)(const ps_network *network, void *arg), void *arg);

/* specs (network->count), the last layer with so many outputs. */
void ps_network_specs(const ps_network *network, uint32_t outputs, ps_layer_spec *specs);

#endif
