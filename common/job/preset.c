/* SPDX-License-Identifier: Apache-2.0 */
/* preset.c - see preset.h. */
#include "common/job/preset.h"

#include <string.h>

/* The network, the data and the rate that all tutorials share. */
#define TUTORIAL                                                                                   \
    "\"workers\":2,\"pservers\":2,\"epochs\":2,\"block_size\":64,"                                 \
    "\"model\":{\"preset\":\"mlp\",\"widths\":[128,128],\"activation\":\"tanh\","                  \
    "\"loss\":\"softmax_cross_entropy\"},"                                                         \
    "\"optimizer\":{\"rule\":{\"name\":\"adam\",\"params\":{\"lr\":0.001}},"                       \
    "\"side\":\"OPTIMIZER_SIDE_SERVER\"},"
#define ON_GLYPHS "\"data\":{\"name\":\"glyphs\"}"
#define ON_MNIST "\"data\":{\"name\":\"mnist\"}"

static const ps_preset presets[] = {
    {
        .name = "asp",
        .summary = "the tutorial on glyphs, asynchronous: nobody waits for anybody",
        .json = "{\"title\":\"asp\"," TUTORIAL ON_GLYPHS ",\"consistency\":{\"name\":\"asp\"}}",
    },
    {
        .name = "async",
        .summary = "PaddlePaddle Fleet's a_sync with k_steps 0, on glyphs: asp",
        .json = "{\"title\":\"async\"," TUTORIAL ON_GLYPHS ",\"consistency\":{\"name\":\"asp\"}}",
    },
    {
        .name = "half_async",
        .summary = "PaddlePaddle's half-async, on glyphs: a step on whatever has come",
        .json = "{\"title\":\"half_async\"," TUTORIAL ON_GLYPHS
                ",\"consistency\":{\"name\":\"half_async\"}}",
    },
    {
        .name = "int8",
        .summary = "the tutorial on glyphs, a byte a value both ways: a quarter of the traffic",
        .json = "{\"title\":\"int8\"," TUTORIAL ON_GLYPHS
                ",\"codec\":{\"up\":{\"name\":\"int8\"},\"down\":{\"name\":\"int8\"}}}",
    },
    {
        .name = "paddle_v2_async",
        .summary =
            "PaddlePaddle v2's is_async with its lagged-gradient discard ratio 1.5, on glyphs: "
            "lag_discard",
        .json = "{\"title\":\"paddle_v2_async\"," TUTORIAL ON_GLYPHS
                ",\"consistency\":{\"name\":\"lag_discard\",\"params\":{\"ratio\":1.5}}}",
    },
    {
        .name = "ssp",
        .summary = "the tutorial on glyphs, stale synchronous: nobody more than 3 steps ahead",
        .json = "{\"title\":\"ssp\"," TUTORIAL ON_GLYPHS
                ",\"consistency\":{\"name\":\"ssp\",\"params\":{\"bound\":3}}}",
    },
    {
        .name = "sync",
        .summary =
            "PaddlePaddle's synchronous mode (a_sync off; v2 without is_async), on glyphs: bsp",
        .json = "{\"title\":\"sync\"," TUTORIAL ON_GLYPHS ",\"consistency\":{\"name\":\"bsp\"}}",
    },
    {
        .name = "tutorial",
        .summary = "784-128-128-10 tanh on mnist, Adam 0.001, blocks of 64, 2 epochs, "
                   "2 workers and 2 servers in step: about 0.955 right",
        .json = "{\"title\":\"tutorial\",\"seed\":1," TUTORIAL ON_MNIST "}",
    },
    {
        .name = "tutorial-glyphs",
        .summary = "the tutorial on digits that the program draws itself: needs no download",
        .json = "{\"title\":\"tutorial-glyphs\"," TUTORIAL ON_GLYPHS "}",
    },
};

const ps_preset *ps_preset_find(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            return &presets[i];
        }
    }
    return NULL;
}

void ps_preset_each(void (*fn)(const ps_preset *preset, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        fn(&presets[i], arg);
    }
}
