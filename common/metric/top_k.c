/* SPDX-License-Identifier: Apache-2.0 */
/* top_k.c - share of samples whose class is among the k greatest outputs. Of equal outputs the
 * first ranks highest. */
#include "common/metric/tally.h"

enum { K };

static const ps_param top_k_params[] = {
    {.name = "k",
     .value = 5,
     .min = 1,
     .max = PS_CLASSES_MAX,
     .is_integer = true,
     .help = "number of greatest outputs; at most all outputs"},
    {.name = NULL},
};

static ps_status top_k_fits(const ps_params *params, const ps_metric_facts *facts)
{
    if (params->v[K] > (double)facts->outputs) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "top_k's k is %.0f; 1 to %zu, the number of outputs, are allowed",
                       params->v[K], facts->outputs);
    }
    return facts->outputs == 1
               ? ps_fail(PS_INVALID_ARGUMENT,
                         "top_k needs one output per class; the model has one output")
               : ps_ok();
}

static void top_k_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs, k = (size_t)tally->params.v[K];

    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        size_t own = ps_targets_class(&t, i, width), before = 0;
        bool is_number = true;

        for (size_t j = 0; j < width; j++) {
            before += row[j] > row[own] || (row[j] == row[own] && j < own);
            is_number = is_number && row[j] == row[j];
        }
        tally->count[0] += is_number && before < k;
    }
}

static double top_k_value(const ps_tally *tally)
{
    return (double)tally->count[0] / (double)tally->samples;
}

const ps_metric ps_metric_top_k = {
    .name = "top_k",
    .summary = "share of samples whose class is among the k greatest outputs",
    .params = top_k_params,
    .targets = PS_TARGETS_CLASSES,
    .counts = 1,
    .fits = top_k_fits,
    .add = top_k_add,
    .value = top_k_value,
};
