/* SPDX-License-Identifier: Apache-2.0 */
/* network_resnet.c - residual networks for images of 32 x 32 (He et al. 2016).
 *
 * Their layers are a convolution, stages of blocks, the mean of each channel, and a dense layer.
 * A block is conv, norm, relu, conv, norm, the addition of its input, relu. From the second stage
 * on, the first block of a stage halves rows and columns and doubles channels. Its input then
 * takes one of three kinds of shortcut to the addition.
 */
#include "common/nn/network.h"

#include <stdio.h>

typedef enum shortcut {
    FREE, /* option A of the paper, without variables: every second value, and channels of zeros */
    PROJECTED, /* option B: a convolution of 1 x 1 and a norm */
    CONVOLVED  /* as in the JSAC 2020 code: a convolution of 3 x 3 and a norm */
} shortcut;

typedef struct resnet {
    uint32_t stages, blocks, filters; /* blocks: of each stage; filters: of the first stage */
    shortcut kind;
} resnet;

enum { NAME_MAX_BYTES = 64 };

/* Adds a convolution without bias, and its norm. */
static void add_conv(ps_network_build *net, const char *name, uint32_t filters, uint32_t kernel,
                     uint32_t stride)
{
    char text[NAME_MAX_BYTES];
    ps_layer_spec *spec;

    snprintf(text, sizeof text, "%s_conv", name);
    spec = ps_network_add(net, "conv2d", text);
    ps_network_set(spec, "filters", filters);
    ps_network_set(spec, "kernel", kernel);
    ps_network_set(spec, "stride", stride);
    ps_network_set(spec, "padding", (kernel - 1) / 2);
    ps_network_set(spec, "bias", 0);
    snprintf(text, sizeof text, "%s_norm", name);
    (void)ps_network_add(net, "batch_norm", text);
}

/* Adds the shortcut of a block. Returns the number of the layer whose output is added. */
static uint32_t add_shortcut(ps_network_build *net, shortcut kind, const char *name,
                             uint32_t filters, uint32_t from)
{
    char text[NAME_MAX_BYTES];
    size_t first = net->count;

    if (kind == FREE) {
        ps_network_set(ps_network_add(net, "shortcut", NULL), "channels", filters);
    } else {
        snprintf(text, sizeof text, "%s_shortcut", name);
        add_conv(net, text, filters, kind == PROJECTED ? 1 : 3, 2);
    }
    ps_network_read(&net->specs[first], from);
    return (uint32_t)net->count;
}

static void add_block(ps_network_build *net, const char *name, shortcut kind, uint32_t filters,
                      bool is_halved)
{
    char text[NAME_MAX_BYTES];
    uint32_t from = (uint32_t)net->count, end;

    snprintf(text, sizeof text, "%s_a", name);
    add_conv(net, text, filters, 3, is_halved ? 2 : 1);
    (void)ps_network_add(net, "relu", NULL);
    snprintf(text, sizeof text, "%s_b", name);
    add_conv(net, text, filters, 3, 1);
    end = (uint32_t)net->count;
    if (is_halved) {
        from = add_shortcut(net, kind, name, filters, from);
    }
    ps_network_read_both(ps_network_add(net, "add", NULL), end, from);
    (void)ps_network_add(net, "relu", NULL);
}

static ps_status build(ps_network_build *net, const resnet *of)
{
    add_conv(net, "stem", of->filters, 3, 1);
    (void)ps_network_add(net, "relu", NULL);
    for (uint32_t s = 0; s < of->stages; s++) {
        for (uint32_t b = 0; b < of->blocks; b++) {
            char name[32];

            snprintf(name, sizeof name, "stage%u_block%u", s + 1, b + 1);
            add_block(net, name, of->kind, of->filters << s, s > 0 && b == 0);
        }
    }
    (void)ps_network_add(net, "global_avgpool", NULL);
    ps_network_set(ps_network_add(net, "dense", "fc"), "units", net->facts->outputs);
    return ps_ok();
}

static ps_status build_resnet14(ps_network_build *net)
{
    return build(net, &(resnet){.stages = 3, .blocks = 2, .filters = 16, .kind = CONVOLVED});
}

static ps_status build_resnet18(ps_network_build *net)
{
    return build(net, &(resnet){.stages = 4, .blocks = 2, .filters = 64, .kind = PROJECTED});
}

/* Builds the network of section 4.2 of the paper, which has 6 n + 2 = `depth` layers. */
static ps_status build_free(ps_network_build *net, uint32_t depth)
{
    return build(net,
                 &(resnet){.stages = 3, .blocks = (depth - 2) / 6, .filters = 16, .kind = FREE});
}

static ps_status build_resnet20(ps_network_build *net)
{
    return build_free(net, 20);
}

enum { DEPTH, DEPTH_MIN = 14, DEPTH_MAX = 56 };

static const ps_param resnet_params[] = {
    [DEPTH] = {.name = "depth",
               .value = DEPTH_MIN,
               .min = DEPTH_MIN,
               .max = DEPTH_MAX,
               .is_integer = true,
               .help = "14: resnet14; 18: resnet18; 20, 26, 32, 38, 44, 50 or 56: as resnet20, "
                       "(depth - 2) / 6 blocks a stage"},
    {0},
};

static ps_status build_resnet(ps_network_build *net)
{
    uint32_t depth = (uint32_t)net->params.v[DEPTH];

    if (depth == 14) {
        return build_resnet14(net);
    }
    if (depth == 18) {
        return build_resnet18(net);
    }
    if (depth % 6 != 2) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "depth is %u; 14, 18, 20, 26, 32, 38, 44, 50 and 56 are allowed", depth);
    }
    return build_free(net, depth);
}

const ps_network ps_network_resnet = {
    .name = "resnet",
    .summary = "the residual network of so many weighted layers: resnet14, resnet18, resnet20 and "
               "deeper ones of its kind",
    .params = resnet_params,
    .build = build_resnet,
};

const ps_network ps_network_resnet14 = {
    .name = "resnet14",
    .summary = "13 convolutions in 6 residual blocks and a dense layer, shortcuts of 3 x 3, for "
               "images of 32 x 32: 195,738 parameters with 3 channels and 10 classes",
    .build = build_resnet14,
};

const ps_network ps_network_resnet18 = {
    .name = "resnet18",
    .summary = "17 convolutions in 8 residual blocks of 64 to 512 filters and a dense layer, for "
               "images of 32 x 32: 11,173,962 parameters with 3 channels and 10 classes",
    .build = build_resnet18,
};

const ps_network ps_network_resnet20 = {
    .name = "resnet20",
    .summary = "19 convolutions in 9 residual blocks of 16 to 64 filters and a dense layer, for "
               "images of 32 x 32: 269,722 parameters with 3 channels and 10 classes",
    .build = build_resnet20,
};
