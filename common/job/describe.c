/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - see describe.h. */
#include "common/job/describe.h"

#include "common/rpc/pbjson.h"

#include <assert.h>

char *ps_plan_describe(const ps_plan *plan)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    json_t *json;
    char *text;

    spec.model = plan->spec->model;
    spec.data = plan->spec->data;
    spec.seed =
        /* with it, readers of the model draw the initial rows of ids that never got a row */
        ps_plan_table_files(plan) > 0 ? plan->spec->seed : 0;
    spec.n_metrics = plan->spec->n_metrics;
    spec.metrics = plan->spec->metrics;
    json = ps_pb_to_json(&spec.base, PS_PB_TERSE);
    text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    assert(text != NULL);
    json_decref(json);
    return text;
}
