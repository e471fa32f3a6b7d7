/* SPDX-License-Identifier: Apache-2.0 */
/* network_build.h - lists of layers, one layer after the other. For the networks of common/nn
 * alone.
 *
 * Numbers not given are the layer's defaults, but for `init`: all weights and biases
 * begin as PyTorch's do.
 */
#ifndef PS_COMMON_NN_NETWORK_BUILD_H
#define PS_COMMON_NN_NETWORK_BUILD_H

#include "common/nn/network.h"

struct ps_network_build {
    const ps_network_facts *facts;
    ps_params params; /* the network's own */
    ps_layer_spec *specs;
    size_t count; /* and so the number of the last layer, as in ps_layer_spec.inputs */
};

/* Adds a layer that reads the one before it. name NULL: kind and position. */
ps_layer_spec *ps_network_add(ps_network_build *net, const char *kind, const char *name);

/* Sets a number that its kind has. */
void ps_network_set(ps_layer_spec *spec, const char *number, double value);

/* Makes it read others. */
void ps_network_read(ps_layer_spec *spec, uint32_t first);
void ps_network_read_both(ps_layer_spec *spec, uint32_t first, uint32_t second);

/* A line of a table of layers. */
enum { PS_NETWORK_NUMBERS_MAX = 4 };
typedef struct ps_network_line {
    const char *kind;
    const char *name; /* NULL: kind and position */
    struct {
        const char *name; /* NULL ends them */
        double value;     /* 0 units: the outputs */
    } numbers[PS_NETWORK_NUMBERS_MAX];
} ps_network_line;

void ps_network_add_lines(ps_network_build *net, const ps_network_line *lines, size_t count);

#endif
