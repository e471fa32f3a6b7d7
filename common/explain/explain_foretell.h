/* SPDX-License-Identifier: Apache-2.0 */
/* explain_foretell.h - forecasts for a job whose exchange is known (explain_forecast.h): with other
 * codecs, which it measures on this machine, in rounds of local steps, and with more servers. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_FORETELL_H
#define PS_COMMON_EXPLAIN_EXPLAIN_FORETELL_H

#include "common/base/status.h"
#include "common/explain/explain_cause.h"
#include "common/explain/explain_forecast.h"

#include "psgd/v1/spec.pb-c.h"

enum { PS_FORETOLD_MAX = 16, PS_FORETOLD_CODEC_BYTES = 256, PS_CODEC_COSTS_MAX = 32 };

typedef struct ps_foretold {
    const char *up, *down; /* codecs as codec_spec.h writes them; "": those of the job */
    double servers;        /* number of servers, as a multiple of the present number; 1: as now */
    uint32_t local_steps;  /* local steps of a round; 0: as now */
    double steps_per_s;    /* the forecast */
} ps_foretold;

/* What codecs cost on this machine: each is measured once. Zeroed memory knows none. */
typedef struct ps_codec_costs {
    size_t count; /* codecs that were measured so far; the newest PS_CODEC_COSTS_MAX are kept */
    struct ps_known_cost {
        char spec[PS_FORETOLD_CODEC_BYTES];
        ps_codec_cost cost;
    } known[PS_CODEC_COSTS_MAX];
} ps_codec_costs;

/* Writes a codec of a job as codec_spec.h has it: "NAME:NUMBER=VALUE,..."; "f32" if `choice` is
 * NULL or has no name. */
void ps_foretell_codec(const Psgd__V1__Choice *choice, char text[PS_FORETOLD_CODEC_BYTES]);

/* Forecasts the rate of a job that makes steps_per_s. Rounds of local steps are forecast only if
 * job_has_rounds is false. ranks[0..n) say what the job sends. Blocks for at least 10 ms for each
 * codec that `costs` does not know yet. Returns the number of rows; 0: it is not known what the
 * exchange carries, or what a codec of the job costs. */
size_t ps_foretell(ps_codec_costs *costs, const Psgd__V1__JobSpec *spec, bool job_has_rounds,
                   const ps_explain_rank *ranks, size_t n, double steps_per_s,
                   const ps_explain_steps *steps, ps_foretold rows[PS_FORETOLD_MAX]);

#endif
