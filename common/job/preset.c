/* SPDX-License-Identifier: Apache-2.0 */
/* preset.c - see preset.h. */
#include "common/job/preset.h"

#include <string.h>

/* The network, the data and the rate that all tutorials share. */
#define NETWORK                                                                                    \
    "\"workers\":2,\"pservers\":2,\"epochs\":2,\"block_size\":64,"                                 \
    "\"model\":{\"preset\":\"mlp\",\"widths\":[128,128],\"activation\":\"tanh\","                  \
    "\"loss\":\"softmax_cross_entropy\"},"
#define TUTORIAL                                                                                   \
    NETWORK                                                                                        \
    "\"optimizer\":{\"rule\":{\"name\":\"adam\",\"params\":{\"lr\":0.001}},"                       \
    "\"side\":\"OPTIMIZER_SIDE_SERVER\"},"
#define ON_GLYPHS "\"data\":{\"name\":\"glyphs\"}"
#define ON_MNIST "\"data\":{\"name\":\"mnist\"}"

/* Where workers step by themselves: their rule. */
#define LOCAL(rule, rate)                                                                          \
    "\"optimizer\":{\"local\":{\"name\":\"" rule "\",\"params\":{\"lr\":" rate "}}}"
#define ASP "\"consistency\":{\"name\":\"asp\"}"

static const ps_preset presets[] = {
    {
        .name = "adam_ps",
        .summary = "Parallel-SGD's adam_gradiff, on glyphs: Adam 3e-5 on the servers, asynchronous",
        .json = "{\"title\":\"adam_ps\"," NETWORK ON_GLYPHS "," ASP
                ",\"optimizer\":{\"rule\":{\"name\":\"adam\",\"params\":{\"lr\":0.00003}}}}",
    },
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
        .name = "dc",
        .summary = "Parallel-SGD's dc, DC-ASGD with an adaptive lambda of 2, on glyphs",
        .json = "{\"title\":\"dc\"," NETWORK ON_GLYPHS "," ASP ","
                "\"update\":{\"name\":\"dc_asgd\",\"params\":{\"lambda\":2}}"
                ",\"optimizer\":{\"rule\":{\"name\":\"sgd\",\"params\":{\"lr\":0.1}}}"
                "}",
    },
    {
        .name = "dqlosp",
        .summary =
            "JSAC2020's DQLOSP, on glyphs: losp with 8 bits a value both ways, replicas proved",
        .json =
            "{\"title\":\"dqlosp\"," NETWORK ON_GLYPHS ","
            "\"update\":{\"name\":\"dqlosp\",\"params\":{\"steps\":16}}"
            "," LOCAL("sgd", "0.1") ",\"codec\":{\"up\":{\"name\":\"intn\",\"params\":{\"bits\":8}}"
                                    ",\"down\":{\"name\":\"intn\",\"params\":{\"bits\":8}}}"
                                    "}",
    },
    {
        .name = "fast",
        .summary =
            "Parallel-SGD's double buffering, on glyphs: a step on the gradient before the last",
        .json = "{\"title\":\"fast\"," NETWORK ON_GLYPHS ","
                "\"update\":{\"name\":\"double_buffering\"},\"optimizer\":{\"rule\":{\"name\":"
                "\"adam\",\"params\":{\"lr\":0.001}}}"
                "}",
    },
    {
        .name = "fedavg",
        .summary = "Parallel-SGD's FedAvg, on glyphs: 150 steps alone, then the plain mean",
        .json = "{\"title\":\"fedavg\"," NETWORK ON_GLYPHS ","
                "\"update\":{\"name\":\"fedavg\",\"params\":{\"steps\":150,\"by_samples\":0}}"
                "," LOCAL("adam", "0.001") "}",
    },
    {
        .name = "geo",
        .summary = "PaddlePaddle Fleet's a_sync with k_steps 25, on glyphs: geo, a sum with lag",
        .json = "{\"title\":\"geo\"," NETWORK ON_GLYPHS "," ASP ","
                "\"update\":{\"name\":\"geo_sum_lag\",\"params\":{\"steps\":25}}"
                "," LOCAL("sgd", "0.1") "}",
    },
    {
        .name = "grad",
        .summary = "Parallel-SGD's PS with graddiff, on glyphs: increments of all workers added as "
                   "they come",
        .json = "{\"title\":\"grad\"," NETWORK ON_GLYPHS "," ASP
                ",\"update\":{\"name\":\"delta\"}," LOCAL("adam", "0.001") "}",
    },
    {
        .name = "graddiff",
        .summary = "what grad was called in Parallel-SGD r0.3",
        .json = "{\"title\":\"graddiff\"," NETWORK ON_GLYPHS "," ASP
                ",\"update\":{\"name\":\"delta\"}," LOCAL("adam", "0.001") "}",
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
        .name = "localsgd",
        .summary = "JSAC2020's localSGD in the order it was meant in, on glyphs: 16 steps a round",
        .json = "{\"title\":\"localsgd\"," NETWORK ON_GLYPHS ","
                "\"update\":{\"name\":\"localsgd\",\"params\":{\"steps\":16}}"
                "," LOCAL("sgd", "0.1") "}",
    },
    {
        .name = "losp",
        .summary =
            "JSAC2020's LOSP, on glyphs: 16 steps while the round before is exchanged, compensated",
        .json = "{\"title\":\"losp\"," NETWORK ON_GLYPHS ","
                "\"update\":{\"name\":\"losp\",\"params\":{\"steps\":16}}"
                "," LOCAL("sgd", "0.1") "}",
    },
    {
        .name = "osp",
        .summary = "OSP (ICPP 2019), on glyphs: 4 steps while the round before is exchanged",
        .json = "{\"title\":\"osp\"," NETWORK ON_GLYPHS ","
                "\"update\":{\"name\":\"osp\",\"params\":{\"steps\":4}}"
                "," LOCAL("sgd", "0.05") "}",
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
        .name = "simple",
        .summary =
            "Parallel-SGD's PS with ParaAveraging, on glyphs: displacements of all workers added",
        .json = "{\"title\":\"simple\"," NETWORK ON_GLYPHS "," ASP
                ",\"update\":{\"name\":\"delta\"}," LOCAL("adam", "0.001") "}",
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
