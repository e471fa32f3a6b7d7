/* SPDX-License-Identifier: Apache-2.0 */
/* preset_own.c - presets that do not follow an older system. */
#include "common/job/preset_impl.h"

/* Lin et al. 2018: sends 25 % of the values at first and 1 % after 234 steps (an epoch of 4
 * workers). Gradients are clipped before momentum accumulates them on the workers. The paper sends
 * 0.1 %: a value would wait a thousand steps, more than the preset's job has. */
#define COMPRESSED                                                                                 \
    PS_WITH("dgc", "\"fraction\":0.01,\"warmup\":234,\"first\":0.25,\"momentum\":0.5")
#define CLIPPED                                                                                    \
    ",\"optimizer\":{\"rule\":" PS_WITH("sgd", "\"lr\":0.8")                                       \
        PS_FALLING("30") ",\"clip\":" PS_WITH("global_norm", "\"limit\":1") "}"

static const ps_preset presets[] = {
    {
        .name = "tutorial",
        .summary = "784-128-128-10 tanh on mnist, Adam 0.001, blocks of 64, 2 epochs, "
                   "2 workers and 2 servers in step: about 0.955 right",
        .json = "{\"title\":\"tutorial\",\"seed\":1," PS_NETWORK PS_ON("mnist") PS_ADAM "}",
    },
    PS_PRESET("tutorial-glyphs",
              "the tutorial on digits that the program draws itself: needs no download", PS_ADAM),
    PS_PRESET("asp", "the tutorial on glyphs, asynchronous: nobody waits for anybody",
              PS_ADAM PS_ASP),
    PS_PRESET("bsp", "the tutorial on glyphs, in step: what all others are compared with",
              PS_ADAM PS_BSP),
    PS_PRESET("ssp", "the tutorial on glyphs, stale synchronous: nobody more than 3 steps ahead",
              PS_ADAM PS_CONSISTENCY(PS_WITH("ssp", "\"bound\":3"))),
    PS_PEERS_PRESET("ring",
                    "the tutorial on glyphs, four workers in a ring without a server (all-reduce)",
                    "ring", "1"),
    PS_PEERS_PRESET("tree", "the tutorial on glyphs, four workers in a tree without a server",
                    "tree", "1"),
    PS_PRESET("int8", "the tutorial on glyphs, a byte a value both ways: a quarter of the traffic",
              PS_ADAM PS_BOTH(PS_PICK("int8"), PS_PICK("int8"))),
    PS_PRESET("dgc",
              "Deep Gradient Compression (Lin et al. 2018): the largest 1 % up, "
              "after a warm-up from 25 %",
              CLIPPED PS_UP(COMPRESSED)),
    PS_PRESET(
        "diloco",
        "DiLoCo (Douillard et al. 2023): rounds of 16 steps of AdamW, Nesterov at the servers",
        PS_UPDATE(PS_WITH("diloco", "\"steps\":16")) PS_LOCAL("adamw", "0.001")),
    PS_PRESET("diloco_overlapped",
              "DiLoCo with eager updates (Kale et al. 2025): a round is exchanged during the next",
              PS_UPDATE(PS_WITH("diloco_overlapped", "\"steps\":16")) PS_LOCAL("adamw", "0.002")),
};

const ps_presets ps_presets_own = {presets, sizeof presets / sizeof presets[0]};
