/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - see network.h. */
#include "common/nn/network.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS_MAX = 4 };

/* Numbers not given are the layer's defaults, but for `init`: all weights and
 * biases begin as PyTorch's do. */
struct ps_network_layer {
    const char *kind;
    const char *name; /* NULL: kind and position */
    struct {
        const char *name; /* NULL ends them */
        double value;     /* 0 units: the outputs */
    } numbers[NUMBERS_MAX];
};

/* clang-format off */
static const ps_network_layer cnn[] = {
    {"conv2d", "conv1", {{"filters", 32}}},
    {"relu", NULL, {{0}}},
    {"conv2d", "conv2", {{"filters", 64}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{0}}},
    {"channel_dropout", NULL, {{"rate", 0.25}}},
    {"flatten", NULL, {{0}}},
    {"dense", "fc1", {{"units", 128}}},
    {"relu", NULL, {{0}}},
    {"dropout", NULL, {{"rate", 0.5}}},
    {"dense", "fc2", {{"units", 0}}},
};

static const ps_network_layer alexnet[] = {
    {"conv2d", "conv1", {{"filters", 64}, {"kernel", 11}, {"stride", 4}, {"padding", 5}}},
    {"channel_dropout", NULL, {{"rate", 0.3}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{0}}},
    {"conv2d", "conv2", {{"filters", 192}, {"kernel", 5}, {"padding", 2}}},
    {"channel_dropout", NULL, {{"rate", 0.3}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{0}}},
    {"conv2d", "conv3", {{"filters", 384}, {"padding", 1}}},
    {"channel_dropout", NULL, {{"rate", 0.3}}},
    {"relu", NULL, {{0}}},
    {"conv2d", "conv4", {{"filters", 256}, {"padding", 1}}},
    {"channel_dropout", NULL, {{"rate", 0.3}}},
    {"relu", NULL, {{0}}},
    {"conv2d", "conv5", {{"filters", 256}, {"padding", 1}}},
    {"channel_dropout", NULL, {{"rate", 0.3}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{0}}},
    {"flatten", NULL, {{0}}},
    {"dense", "fc", {{"units", 0}}},
};
/* clang-format on */

static const ps_network networks[] = {
    {
        .name = "cnn",
        .summary = "two convolutions and two dense layers for images of 28 x 28: 1,199,882 "
                   "parameters with 1 channel",
        .layers = cnn,
        .count = sizeof cnn / sizeof cnn[0],
    },
    {
        .name = "alexnet",
        .summary = "five convolutions and a dense layer for images of 32 x 32: 2,472,266 "
                   "parameters with 3 channels",
        .layers = alexnet,
        .count = sizeof alexnet / sizeof alexnet[0],
    },
};

const ps_network *ps_network_find(const char *name)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        if (strcmp(networks[i].name, name) == 0) {
            return &networks[i];
        }
    }
    return NULL;
}

void ps_network_each(void (*fn)(const ps_network *network, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        fn(&networks[i], arg);
    }
}

static void set(ps_layer_spec *spec, const char *name, double value)
{
    int at = ps_param_find(spec->layer->params, name);

    assert(at >= 0);
    spec->params.v[at] = value;
}

void ps_network_specs(const ps_network *network, uint32_t outputs, ps_layer_spec *specs)
{
    for (size_t i = 0; i < network->count; i++) {
        const ps_network_layer *from = &network->layers[i];
        ps_layer_spec *to = &specs[i];

        to->layer = ps_layer_find(from->kind);
        assert(to->layer != NULL);
        to->params = ps_params_default(to->layer->params);
        if (ps_param_find(to->layer->params, "init") >= 0) {
            set(to, "init", PS_INIT_RULE_PYTORCH);
        }
        for (size_t k = 0; k < NUMBERS_MAX && from->numbers[k].name != NULL; k++) {
            bool is_open = from->numbers[k].value == 0.0;

            set(to, from->numbers[k].name, is_open ? (double)outputs : from->numbers[k].value);
        }
        if (from->name != NULL) {
            snprintf(to->name, sizeof to->name, "%s", from->name);
        } else {
            snprintf(to->name, sizeof to->name, "%s%zu", from->kind, i);
        }
    }
}
