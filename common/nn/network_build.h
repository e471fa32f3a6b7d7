/* SPDX-License-Identifier: Apache-2.0 */
/* network_build.h - builds the list of layers of a network, which network.h finds by name.
 *
 * Numbers that are not set are the layer's defaults, except `init`: all weights and biases start as
 * in PyTorch.
 */
#ifndef PS_COMMON_NN_NETWORK_BUILD_H
#define PS_COMMON_NN_NETWORK_BUILD_H

#include "common/nn/model.h"

/* The data that a network has to fit. */
typedef struct ps_network_facts {
    uint32_t features;   /* values of a sample; the last `ids` of them are ids */
    uint32_t ids;        /* 0: no value is an id */
    uint32_t vocabulary; /* ids are less than this */
    uint32_t classes;    /* 0: targets are values */
    uint32_t outputs;    /* one for each class or value */
} ps_network_facts;

typedef struct ps_network_build {
    const ps_network_facts *facts;
    ps_params params; /* the network's own */
    ps_layer_spec *specs;
    size_t count; /* layers so far, and so the number of the last one, as in ps_layer_spec.inputs */
} ps_network_build;

/* Appends a layer that reads the layer before it, and returns it. `name` NULL: its name is made of
 * kind and position. */
ps_layer_spec *ps_network_add(ps_network_build *net, const char *kind, const char *name);

/* Sets a number of the layer. The layer's kind must have a number of this name. */
void ps_network_set(ps_layer_spec *spec, const char *number, double value);

/* Makes the layer read the layer with number `first` instead of the one before it. */
void ps_network_read(ps_layer_spec *spec, uint32_t first);

/* Makes the layer read the two layers with these numbers. */
void ps_network_read_both(ps_layer_spec *spec, uint32_t first, uint32_t second);

/* A line of a const table of layers; at most PS_NETWORK_NUMBERS_MAX numbers. */
enum { PS_NETWORK_NUMBERS_MAX = 4 };
typedef struct ps_network_line {
    const char *kind;
    const char *name; /* NULL: kind and position */
    struct {
        const char *name; /* NULL: no more numbers */
        double value;     /* 0 stands for facts->outputs */
    } numbers[PS_NETWORK_NUMBERS_MAX];
} ps_network_line;

/* Appends the layers of a table. */
void ps_network_add_lines(ps_network_build *net, const ps_network_line *lines, size_t count);

#endif
