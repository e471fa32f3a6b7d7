/* SPDX-License-Identifier: Apache-2.0 */
/* preset_impl.h - the macros from which presets are put together, and the tables of presets: one
 * for psgd itself, and one for each older system whose names the presets bear. For preset*.c alone.
 *
 * Most rows of a table are PS_PRESET(name, summary, choices): a job with the tutorial's network on
 * glyphs. `choices` are further fields of the job as JSON text; each begins with a comma. The job's
 * title is the preset's name. PS_PEERS_PRESET is such a job without servers.
 */
#ifndef PS_COMMON_JOB_PRESET_IMPL_H
#define PS_COMMON_JOB_PRESET_IMPL_H

#include "common/job/preset.h"

typedef struct ps_presets {
    const ps_preset *at; /* (count) */
    size_t count;
} ps_presets;

extern const ps_presets ps_presets_own;          /* tutorials, and presets of a single choice */
extern const ps_presets ps_presets_parallel_sgd; /* names of all versions of Parallel-SGD */
extern const ps_presets ps_presets_losp;         /* JSAC2020 and its companion of ICPP 2019 */
extern const ps_presets ps_presets_paddle;       /* PaddlePaddle v2 and Fleet */

/* clang-format off */
#define PS_NETWORK "\"workers\":2,\"pservers\":2," PS_MODEL
#define PS_MODEL                                                                                   \
    "\"epochs\":2,\"block_size\":64,"                                                              \
    "\"model\":{\"preset\":\"mlp\",\"widths\":[128,128],\"activation\":\"tanh\","                  \
    "\"loss\":\"softmax_cross_entropy\"}"
#define PS_ON(data) ",\"data\":{\"name\":\"" data "\"}"
#define PS_JOB(title, choices)                                                                     \
    "{\"title\":\"" title "\"," PS_NETWORK PS_ON("glyphs") choices "}"
/* Four workers that exchange without a server; each block is on `redundancy` of them. */
#define PS_PEERS_JOB(title, exchange, redundancy)                                                  \
    "{\"title\":\"" title "\",\"workers\":4," PS_MODEL PS_ON("glyphs")                             \
    ",\"exchange\":" PS_PICK(exchange)                                                             \
    ",\"assignment\":" PS_WITH("iid", "\"redundancy\":" redundancy) PS_ADAM PS_BSP "}"

#define PS_PRESET(title, what, choices)                                                            \
    {.name = title, .summary = what, .json = PS_JOB(title, choices)}
#define PS_PEERS_PRESET(title, what, exchange, redundancy)                                         \
    {.name = title, .summary = what, .json = PS_PEERS_JOB(title, exchange, redundancy)}

/* PS_PICK is a choice by name, PS_WITH one with numbers: PS_WITH("intn", "\"bits\":8"). */
#define PS_PICK(name) "{\"name\":\"" name "\"}"
#define PS_WITH(name, numbers) "{\"name\":\"" name "\",\"params\":{" numbers "}}"

#define PS_UPDATE(choice) ",\"update\":" choice
#define PS_CONSISTENCY(choice) ",\"consistency\":" choice
#define PS_ASP PS_CONSISTENCY(PS_PICK("asp"))
#define PS_BSP PS_CONSISTENCY(PS_PICK("bsp"))
#define PS_UP(choice) ",\"codec\":{\"up\":" choice "}"
#define PS_DOWN(choice) ",\"codec\":{\"down\":" choice "}"
#define PS_BOTH(up, down) ",\"codec\":{\"up\":" up ",\"down\":" down "}"

/* PS_RULE sets the rule of the servers, PS_LOCAL that of workers in local steps. */
#define PS_RULE(rule, rate)                                                                        \
    ",\"optimizer\":{\"rule\":" PS_WITH(rule, "\"lr\":" rate)                                      \
    ",\"side\":\"OPTIMIZER_SIDE_SERVER\"}"
#define PS_LOCAL(rule, rate) ",\"optimizer\":{\"local\":" PS_WITH(rule, "\"lr\":" rate) "}"
#define PS_ADAM PS_RULE("adam", "0.001")
#define PS_WARM_UP(steps)                                                                          \
    ",\"schedule\":" PS_WITH("constant", "\"warmup\":" steps)
#define PS_FALLING(steps)                                                                          \
    ",\"schedule\":" PS_WITH("polynomial", "\"warmup\":" steps)
/* clang-format on */

#endif
