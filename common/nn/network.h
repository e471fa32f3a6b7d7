/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - networks that have a name: lists of layers, ready to be trained.
 *
 * To add one: a ps_network in a file like network_resnet.c, made with network_build.h,
 * and a line in the list of network.c.
 */
#ifndef PS_COMMON_NN_NETWORK_H
#define PS_COMMON_NN_NETWORK_H

#include "common/nn/model.h"

/* What a network is to fit. */
typedef struct ps_network_facts {
    uint32_t features;   /* values of a sample; the last `ids` of them are ids */
    uint32_t ids;        /* 0: none are */
    uint32_t vocabulary; /* ids are below it */
    uint32_t classes;    /* 0: targets are values */
    uint32_t outputs;    /* a class or a value each */
} ps_network_facts;

typedef struct ps_network_build ps_network_build;

typedef struct ps_network {
    const char *name;
    const char *summary;    /* the input it was made for, and its parameters */
    const ps_param *params; /* (optional) */
    const char *loss;       /* (optional) that it is made for; NULL: softmax_cross_entropy */
    PS_MUST_USE ps_status (*build)(ps_network_build *net);
} ps_network;

const ps_network *ps_network_find(const char *name); /* NULL if there is none */
void ps_network_each(void (*fn)(const ps_network *network, void *arg), void *arg);

/* Fills specs (PS_MODEL_LAYERS_MAX) and *count; params are in the order of its table.
 * INVALID_ARGUMENT when it cannot be made for such data: "needs ids". */
PS_MUST_USE ps_status ps_network_specs(const ps_network *network, const ps_network_facts *facts,
                                       const ps_params *params, ps_layer_spec *specs,
                                       size_t *count);

#endif
