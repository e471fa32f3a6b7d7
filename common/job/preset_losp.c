/* SPDX-License-Identifier: Apache-2.0 */
/* preset_losp.c - the algorithms of JSAC2020 (Wang et al., LOSP, IEEE JSAC 39(8), 2021) and of
 * its companion for OSP (ICPP 2019). Their ssp and bsp are among our own.
 *
 * Rates are for two passes over a small set; the older system's was sgd 0.0004, for a
 * hundred.
 */
#include "common/job/preset_parts.h"

#define EIGHT_FED PS_WITH("intn", "\"bits\":8,\"error_feedback\":1")

/* The restart points of osp lack all of the last round, so what goes far in a round swings
 * for long (common/update/osp.c). Its authors divide the rate by ten now and then; over so short a
 * job it falls in a straight line, which lets the swings die. */
#define CAREFUL                                                                                    \
    ",\"optimizer\":{\"local\":" PS_WITH("rmsprop", "\"lr\":0.005") PS_FALLING("100") "}"

static const ps_preset presets[] = {
    {
        .name = "localsgd",
        .summary = "JSAC2020's localSGD in the order it was meant in: 16 steps a round, then the "
                   "mean",
        .json = PS_JOB("localsgd",
                       PS_UPDATE(PS_WITH("localsgd", "\"steps\":16")) PS_LOCAL("momentum", "0.05")),
    },
    {
        .name = "osp",
        .summary =
            "OSP (ICPP 2019): 4 steps while the round before is exchanged, at a falling rate",
        .json = PS_JOB("osp", PS_UPDATE(PS_WITH("osp", "\"steps\":4")) CAREFUL),
    },
    {
        .name = "losp",
        .summary = "JSAC2020's LOSP: 16 steps while the round before is exchanged, compensated",
        .json =
            PS_JOB("losp", PS_UPDATE(PS_WITH("losp", "\"steps\":16")) PS_LOCAL("adam", "0.002")),
    },
    {
        .name = "dqlosp",
        .summary = "JSAC2020's DQLOSP: losp with 8 bits a value both ways, fed back, replicas "
                   "proved",
        .json = PS_JOB("dqlosp", PS_UPDATE(PS_WITH("dqlosp", "\"steps\":16"))
                                     PS_LOCAL("adam", "0.002") PS_BOTH(EIGHT_FED, EIGHT_FED)),
    },
};

const ps_presets ps_presets_losp = {presets, sizeof presets / sizeof presets[0]};
