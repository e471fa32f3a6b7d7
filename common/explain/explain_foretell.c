/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_foretell.h"

#include <stdio.h>
#include <string.h>

/* number of values on which each codec is measured; microseconds for encoding and for decoding */
enum { VALUES = 200000, MEASURE_US = 5000 };

/* More servers are forecast if the servers' share of a step is at least this. */
static const double served_from = 0.1;

static const char *const codecs[] = {"f32", "f16", "int8", "topk:fraction=0.01"};
enum { CODECS = sizeof codecs / sizeof codecs[0], F32 = 0, INT8 = 2, TOPK = 3 };

static const uint32_t rounds[] = {4, 16};

void ps_foretell_codec(const Psgd__V1__Choice *choice, char text[PS_FORETOLD_CODEC_BYTES])
{
    size_t n = (size_t)snprintf(text, PS_FORETOLD_CODEC_BYTES, "%s",
                                choice != NULL && choice->name[0] != '\0' ? choice->name : "f32");

    for (size_t i = 0; choice != NULL && i < choice->n_params && n < PS_FORETOLD_CODEC_BYTES; i++) {
        n += (size_t)snprintf(text + n, PS_FORETOLD_CODEC_BYTES - n, "%c%s=%.9g",
                              i == 0 ? ':' : ',', choice->params[i]->key, choice->params[i]->value);
    }
}

/* Sets in *job the number of workers, the values that a worker sends in a step, and the bytes of a
 * value each way, as means of the measured ranks. Returns false if one of the ranks' sums is 0. */
static bool take_traffic(const ps_explain_rank *ranks, size_t n, ps_forecast_job *job)
{
    double up = 0, down = 0, plain_up = 0, plain_down = 0, steps = 0;

    for (size_t r = 0; r < n; r++) {
        up += ranks[r].bytes_up;
        down += ranks[r].bytes_down;
        plain_up += ranks[r].float32_up;
        plain_down += ranks[r].float32_down;
        steps += (double)ranks[r].steps;
    }
    if (!(up > 0 && down > 0 && plain_up > 0 && plain_down > 0 && steps > 0)) {
        return false;
    }
    job->workers = (double)n;
    job->values = plain_up / sizeof(float) / steps;
    job->up_bytes = sizeof(float) * up / plain_up;
    job->down_bytes = sizeof(float) * down / plain_down;
    return true;
}

/* Sets *out to the cost of the codec `spec`: from `costs` if it was measured before, else measures
 * it. Returns false if `spec` names no codec. */
static bool find_cost(ps_codec_costs *costs, const char *spec, ps_codec_cost *out)
{
    size_t n = costs->count < PS_CODEC_COSTS_MAX ? costs->count : PS_CODEC_COSTS_MAX;
    struct ps_known_cost *next = &costs->known[costs->count % PS_CODEC_COSTS_MAX];
    ps_status st;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(costs->known[i].spec, spec) == 0) {
            *out = costs->known[i].cost;
            return true;
        }
    }
    st = ps_codec_cost_measure(spec, VALUES, MEASURE_US, out);
    if (ps_is_ok(&st)) {
        snprintf(next->spec, sizeof next->spec, "%s", spec);
        next->cost = *out;
        costs->count++;
    }
    return ps_is_ok(&st);
}

/* Sets job->up and job->down to the costs of the job's own codecs, and cost[i] to the cost of
 * codecs[i], for the comparison. Returns false if one of them names no codec. */
static bool find_costs(ps_codec_costs *costs, const Psgd__V1__JobSpec *spec, ps_forecast_job *job,
                       ps_codec_cost cost[CODECS])
{
    const Psgd__V1__CodecSpec *own = spec != NULL ? spec->codec : NULL;
    char up[PS_FORETOLD_CODEC_BYTES], down[PS_FORETOLD_CODEC_BYTES];
    bool is_good;

    ps_foretell_codec(own != NULL ? own->up : NULL, up);
    ps_foretell_codec(own != NULL ? own->down : NULL, down);
    is_good = find_cost(costs, up, &job->up) && find_cost(costs, down, &job->down);
    for (size_t i = 0; i < CODECS && is_good; i++) {
        is_good = find_cost(costs, codecs[i], &cost[i]);
    }
    return is_good;
}

size_t ps_foretell(ps_codec_costs *costs, const Psgd__V1__JobSpec *spec, bool job_has_rounds,
                   const ps_explain_rank *ranks, size_t n, double steps_per_s,
                   const ps_explain_steps *steps, ps_foretold rows[PS_FORETOLD_MAX])
{
    ps_forecast_job job = {.steps = steps, .steps_per_s = steps_per_s};
    ps_codec_cost cost[CODECS];
    size_t count = 0;

    if (!take_traffic(ranks, n, &job) || !find_costs(costs, spec, &job, cost)) {
        return 0;
    }
    for (size_t up = 0; up < CODECS; up++) {
        for (size_t down = 0; down < TOPK; down++) { /* TOPK is the last; it is not for weights */
            if (down == F32 || down == up || (down == INT8 && up == TOPK)) {
                rows[count++] = (ps_foretold){codecs[up], codecs[down], 1, 0,
                                              ps_forecast_codecs(&job, &cost[up], &cost[down])};
            }
        }
    }
    /* Rounds are not forecast for a job that has rounds already. */
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0] && !job_has_rounds; i++) {
        rows[count++] = (ps_foretold){"", "", 1, rounds[i], ps_forecast_rounds(&job, rounds[i])};
    }
    if (steps->shares[PS_WAY_SERVER] >= served_from) {
        rows[count++] = (ps_foretold){"", "", 2, 0, ps_forecast_servers(&job, 2)};
    }
    return count;
}
