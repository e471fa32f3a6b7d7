/* SPDX-License-Identifier: Apache-2.0 */
/* check_trace.c - see plan_impl.h: which steps have a timeline. */
#include "common/job/plan_impl.h"

#include <inttypes.h>

enum { STEPS_DEFAULT = 20, STEPS_MAX = 10000 };
static const uint64_t from_step_max = UINT64_C(1000000000000);

void ps_check_trace(ps_check *check, const ps_plan *plan)
{
    Psgd__V1__TraceSpec *spec = plan->spec->trace;

    if (spec == NULL) {
        return;
    }
    spec->from_step = spec->from_step == 0 ? 1 : spec->from_step;
    if (spec->from_step > from_step_max) {
        ps_check_bad(check, "spec.trace.from_step", "is %" PRIu64 "; 1 to %" PRIu64 " are allowed",
                     spec->from_step, from_step_max);
    }
    ps_check_u32(check, "spec.trace.steps", &spec->steps, STEPS_DEFAULT, 1, STEPS_MAX);
}
