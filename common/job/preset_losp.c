/* SPDX-License-Identifier: Apache-2.0 */
/* preset_losp.c - the algorithms of JSAC2020 (Wang et al., LOSP, IEEE JSAC 39(8), 2021) and of
 * its companion for OSP (ICPP 2019). Their ssp and bsp are among our own.
 *
 * Rates are for two passes over a small set; the older system used sgd with rate 0.0004 for a
 * hundred passes.
 */
#include "common/job/preset_impl.h"

#define EIGHT_FED PS_WITH("intn", "\"bits\":8,\"error_feedback\":1")

/* With osp a worker goes on from weights that lack the last round, so a job with a high learning
 * rate oscillates for long (common/update/osp.c). OSP's authors divide the rate by ten from time to
 * time. In this short job it falls in a straight line, which damps the oscillation. */
#define CAREFUL                                                                                    \
    ",\"optimizer\":{\"local\":" PS_WITH("rmsprop", "\"lr\":0.005") PS_FALLING("100") "}"

static const ps_preset presets[] = {
    PS_PRESET("localsgd",
              "JSAC2020's localSGD in the intended order: 16 steps a round, then the mean",
              PS_UPDATE(PS_WITH("localsgd", "\"steps\":16")) PS_LOCAL("momentum", "0.05")),
    PS_PRESET("osp",
              "OSP (ICPP 2019): 4 steps while the round before is exchanged, at a falling rate",
              PS_UPDATE(PS_WITH("osp", "\"steps\":4")) CAREFUL),
    PS_PRESET("losp", "JSAC2020's LOSP: 16 steps while the round before is exchanged, compensated",
              PS_UPDATE(PS_WITH("losp", "\"steps\":16")) PS_LOCAL("adam", "0.002")),
    PS_PRESET("dqlosp",
              "JSAC2020's DQLOSP: losp with 8 bits a value both ways, error feedback, "
              "replicas with checksums",
              PS_UPDATE(PS_WITH("dqlosp", "\"steps\":16")) PS_LOCAL("adam", "0.002")
                  PS_BOTH(EIGHT_FED, EIGHT_FED)),
};

const ps_presets ps_presets_losp = {presets, sizeof presets / sizeof presets[0]};
