/* SPDX-License-Identifier: Apache-2.0 */
/* network_images.c - convolutional networks that are plain chains of layers. */
#include "common/nn/network.h"

/* clang-format off */
static const ps_network_line cnn[] = {
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

static const ps_network_line alexnet[] = {
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

/* AlexNet as the program Parallel-SGD has it: without the local response normalisation that the
 * paper also has. */
static const ps_network_line alexnet227[] = {
    {"conv2d", "conv1", {{"filters", 96}, {"kernel", 11}, {"stride", 4}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{"kernel", 3}, {"stride", 2}}},
    {"conv2d", "conv2", {{"filters", 256}, {"kernel", 5}, {"padding", 2}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{"kernel", 3}, {"stride", 2}}},
    {"conv2d", "conv3", {{"filters", 384}, {"padding", 1}}},
    {"relu", NULL, {{0}}},
    {"conv2d", "conv4", {{"filters", 384}, {"padding", 1}}},
    {"relu", NULL, {{0}}},
    {"conv2d", "conv5", {{"filters", 256}, {"padding", 1}}},
    {"relu", NULL, {{0}}},
    {"maxpool2d", NULL, {{"kernel", 3}, {"stride", 2}}},
    {"flatten", NULL, {{0}}},
    {"dense", "fc1", {{"units", 4096}}},
    {"relu", NULL, {{0}}},
    {"dense", "fc2", {{"units", 4096}}},
    {"relu", NULL, {{0}}},
    {"dense", "fc3", {{"units", 1000}}},
    {"relu", NULL, {{0}}},
    {"dense", "fc4", {{"units", 0}}},
};
/* clang-format on */

static ps_status build_cnn(ps_network_build *net)
{
    ps_network_add_lines(net, cnn, sizeof cnn / sizeof cnn[0]);
    return ps_ok();
}

static ps_status build_alexnet(ps_network_build *net)
{
    ps_network_add_lines(net, alexnet, sizeof alexnet / sizeof alexnet[0]);
    return ps_ok();
}

static ps_status build_alexnet227(ps_network_build *net)
{
    ps_network_add_lines(net, alexnet227, sizeof alexnet227 / sizeof alexnet227[0]);
    return ps_ok();
}

const ps_network ps_network_cnn = {
    .name = "cnn",
    .summary = "two convolutions and two dense layers for images of 28 x 28: 1,199,882 "
               "parameters with 1 channel and 10 classes",
    .build = build_cnn,
};

const ps_network ps_network_alexnet = {
    .name = "alexnet",
    .summary = "five convolutions and a dense layer for images of 32 x 32: 2,472,266 "
               "parameters with 3 channels and 10 classes",
    .build = build_alexnet,
};

const ps_network ps_network_alexnet227 = {
    .name = "alexnet227",
    .summary = "five convolutions and four dense layers for images of 227 x 227: 62,388,354 "
               "parameters with 3 channels and 10 classes",
    .build = build_alexnet227,
};
