/* SPDX-License-Identifier: Apache-2.0 */
/* check_tracker.c - see plan_impl.h: which trackers a job has. */
#include "common/job/plan_impl.h"

#include "common/job/tracker_url.h"

#include <stdio.h>
#include <string.h>

void ps_check_trackers(ps_check *check, const ps_plan *plan)
{
    const Psgd__V1__JobSpec *spec = plan->spec;

    if (spec->n_tracker > PS_TRACKERS_MAX) {
        ps_check_bad(check, "spec.tracker", "has %zu entries; at most %d are allowed",
                     spec->n_tracker, PS_TRACKERS_MAX);
        return;
    }
    for (size_t i = 0; i < spec->n_tracker; i++) {
        ps_tracker_url url;
        ps_status st = ps_tracker_url_parse(spec->tracker[i], &url);
        char field[48];

        snprintf(field, sizeof field, "spec.tracker[%zu]", i);
        if (!ps_is_ok(&st)) {
            ps_check_bad(check, field, "%s", st.text);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(spec->tracker[k], spec->tracker[i]) == 0) {
                ps_check_bad(check, field, "is there twice");
            }
        }
    }
}
