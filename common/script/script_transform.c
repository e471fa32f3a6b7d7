/* SPDX-License-Identifier: Apache-2.0 */
/* script_transform.c - a transform of a script: it changes the features of a sample. After a
 * failure samples stay as they are, and the job ends. */
#include "common/script/script_impl.h"

static void sample(const ps_transforming *at, ps_split split, uint64_t key, float *x,
                   float *targets)
{
    ps_script *script = ps_script_of_id((uint64_t)at->params->v[0]);
    uint32_t n = (uint32_t)at->facts.features;
    const ps_script_value arguments[] = {
        {.kind = PS_SANDBOX_VECTOR, .count = n, .in = x},
        {.kind = PS_SANDBOX_BOOLEAN, .integer = split == PS_TRAIN},
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)key},
        ps_script_numbers(script, at->params, 1),
    };
    ps_script_value result = {.kind = PS_SANDBOX_VECTOR, .count = n, .out = x};
    ps_status st = ps_script_call(script, "sample", arguments, 4, &result, 1);

    (void)st; /* the script keeps a failure, which ends the job */
    (void)targets;
}

static ps_status plan(const ps_params *params, ps_data_facts *facts)
{
    (void)params;
    if (facts->ids > 0 || facts->features > PS_SCRIPT_FEATURES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%zu features, %zu of them ids; code transforms samples without ids, of at "
                       "most %d features",
                       (size_t)facts->features, (size_t)facts->ids, PS_SCRIPT_FEATURES_MAX);
    }
    return ps_ok();
}

void ps_script_transform_make(const ps_script_about *about, ps_script_plugin *plugin)
{
    plugin->transform = (ps_transform){
        .name = about->name,
        .summary = about->summary,
        .params = plugin->params,
        .draws = true,
        .plan = plan,
        .sample = sample,
    };
}
