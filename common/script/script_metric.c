/* SPDX-License-Identifier: Apache-2.0 */
/* script_metric.c - a metric of a script: it adds up to two numbers for each batch, and makes one
 * of their sums over the test set. A failure gives NaN; the job ends with it. */
#include "common/metric/tally.h"
#include "common/script/script_impl.h"

#include <math.h>

static void add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    ps_script *script = ps_script_of_id((uint64_t)tally->params.v[0]);
    const ps_script_value arguments[] = {
        {.kind = PS_SANDBOX_VECTOR, .count = (uint32_t)(n * tally->facts.outputs), .in = y},
        {.kind = PS_SANDBOX_VECTOR, .count = (uint32_t)(n * t.width), .in = t.at},
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)n},
        ps_script_numbers(script, &tally->params, 1),
    };
    ps_script_value sums[PS_TALLY_SUMS] = {{.kind = PS_SANDBOX_NUMBER},
                                           {.kind = PS_SANDBOX_NUMBER}};
    ps_status st = ps_script_call(script, "add", arguments, 4, sums, PS_TALLY_SUMS);

    for (size_t i = 0; i < PS_TALLY_SUMS && ps_is_ok(&st); i++) {
        if (isfinite(sums[i].number)) {
            ps_exact_sum_add(&tally->sum[i], sums[i].number);
        } else {
            ps_script_fail(script, "add: result %zu is %g; finite numbers are allowed", i + 1,
                           sums[i].number);
        }
    }
}

static double value(const ps_tally *tally)
{
    ps_script *script = ps_script_of_id((uint64_t)tally->params.v[0]);
    const ps_script_value arguments[] = {
        {.kind = PS_SANDBOX_NUMBER, .number = ps_exact_sum_value(&tally->sum[0])},
        {.kind = PS_SANDBOX_NUMBER, .number = ps_exact_sum_value(&tally->sum[1])},
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)tally->samples},
        ps_script_numbers(script, &tally->params, 1),
    };
    double x;
    ps_status st = ps_script_number(script, "value", arguments, 4, &x);

    return ps_is_ok(&st) ? x : NAN;
}

void ps_script_metric_make(const ps_script_about *about, ps_script_plugin *plugin)
{
    plugin->metric = (ps_metric){
        .name = about->name,
        .summary = about->summary,
        .params = plugin->params,
        .targets = PS_TARGETS_ANY,
        .is_cost = (about->traits & PS_TRAIT_COST) != 0,
        .sums = PS_TALLY_SUMS,
        .add = add,
        .value = value,
    };
}
