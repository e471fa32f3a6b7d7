/* SPDX-License-Identifier: Apache-2.0 */
/* script_schedule.c - a schedule of a script. A failure gives the factor 0: nothing is learned
 * until the failure ends the job. */
#include "common/script/script_impl.h"

#include <math.h>

static double factor(const ps_params *params, uint64_t s, uint64_t total)
{
    ps_script *script = ps_script_of_id((uint64_t)params->v[PS_WARMUP_PARAMS]);
    const ps_script_value arguments[] = {
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)s},
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)total},
        ps_script_numbers(script, params, PS_WARMUP_PARAMS + 1),
    };
    double x = 0;
    ps_status st = ps_script_number(script, "factor", arguments, 3, &x);

    if (ps_is_ok(&st) && !(x >= 0 && isfinite(x))) {
        ps_script_fail(script, "factor: returns %g for step %llu; 0 and more are allowed", x,
                       (unsigned long long)s);
        x = 0;
    }
    return ps_is_ok(&st) ? x : 0;
}

void ps_script_schedule_make(const ps_script_about *about, ps_script_plugin *plugin)
{
    plugin->schedule = (ps_schedule){
        .name = about->name,
        .summary = about->summary,
        .params = plugin->params,
        .factor = factor,
    };
}
