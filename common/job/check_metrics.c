/* SPDX-License-Identifier: Apache-2.0 */
/* check_metrics.c - see plan_impl.h: the metrics of an evaluation. */
#include "common/job/plan_impl.h"

#include "common/base/xalloc.h"
#include "common/job/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* most test samples with a metric that ranks scores; sorting takes up to 100 bytes a sample */
enum { RANKED_MAX = 10000000 };

static void add_default(Psgd__V1__JobSpec *spec, const char *name)
{
    Psgd__V1__Choice *choice = ps_xmalloc(sizeof *choice);

    psgd__v1__choice__init(choice);
    ps_spec_set(&choice->name, name);
    spec->metrics = ps_xmalloc(sizeof *spec->metrics);
    spec->metrics[0] = choice;
    spec->n_metrics = 1;
}

/* Returns true if the job has not named the metric before. Else reports an error and returns false.
 */
static bool is_new(ps_check *check, const char *field, const ps_plan *plan, const ps_metric *metric)
{
    for (size_t i = 0; i < plan->metric_count; i++) {
        if (plan->metrics[i].metric == metric) {
            ps_check_bad(check, field, "is \"%s\"; spec.metrics[%zu] is it already", metric->name,
                         i);
            return false;
        }
    }
    return true;
}

static void check_metric(ps_check *check, ps_plan *plan, size_t i, const char *name_default)
{
    ps_metric_choice found = {0};
    char field[PS_FIELD_MAX / 2], path[PS_FIELD_MAX];
    ps_status st = ps_ok();

    snprintf(field, sizeof field, "spec.metrics[%zu]", i);
    if (!ps_check_choice(check, field, &ps_kind_metric, plan->spec->metrics[i], name_default,
                         &found.params)) {
        return;
    }
    found.metric = ps_plan_metric(plan, plan->spec->metrics[i]->name);
    snprintf(path, sizeof path, "%s.name", field);
    if (!is_new(check, path, plan, found.metric)) {
        return;
    }
    if (plan->outputs > 0) {
        st = ps_metric_fits(found.metric, &found.params, &plan->metric_facts);
    }
    if (!ps_is_ok(&st)) {
        ps_check_bad(check, field, "does not fit the model and the data set: %s", st.text);
    } else if (found.metric->ranks && plan->test_count > RANKED_MAX) {
        ps_check_bad(check, path, "is \"%s\" over %u test samples; at most %d are allowed for it",
                     found.metric->name, plan->test_count, RANKED_MAX);
    } else {
        plan->metrics[plan->metric_count++] = found;
    }
}

void ps_check_metrics(ps_check *check, ps_plan *plan, const ps_data_facts *facts)
{
    Psgd__V1__JobSpec *spec = plan->spec;
    const char *name_default = facts == NULL || facts->classes > 0 ? "accuracy" : "mse";

    if (ps_plan_is_foreign(plan)) {
        if (spec->n_metrics > 0) {
            ps_check_bad(check, "spec.metrics",
                         "has %zu entries; with model.foreign none is allowed: the programs that "
                         "compute the model evaluate it",
                         spec->n_metrics);
        }
        return;
    }
    if (spec->n_metrics == 0) {
        add_default(spec, name_default);
    }
    if (spec->n_metrics > PS_METRICS_MAX) {
        ps_check_bad(check, "spec.metrics", "has %zu entries; at most %d are allowed",
                     spec->n_metrics, PS_METRICS_MAX);
        return;
    }
    if (plan->outputs > 0) {
        plan->metric_facts = (ps_metric_facts){.outputs = plan->outputs,
                                               .classes = facts->classes,
                                               .target_width = facts->target_width,
                                               .link = plan->loss->link};
    }
    for (size_t i = 0; i < spec->n_metrics; i++) {
        check_metric(check, plan, i, name_default);
    }
}

/* Returns the most bytes of a worker's part of a split evaluation: 1 KiB, for each metric 1 KiB
 * more, and for each metric that ranks 20 bytes a score. */
static uint64_t part_bytes(const ps_plan *plan)
{
    uint64_t batches = ((uint64_t)plan->test_count + PS_EVALUATION_BATCH - 1) / PS_EVALUATION_BATCH;
    uint64_t share = (batches + plan->spec->workers - 1) / plan->spec->workers;
    uint64_t bytes = 1024;

    for (size_t i = 0; i < plan->metric_count; i++) {
        bytes += 1024 + (plan->metrics[i].metric->ranks ? 20 * share * PS_EVALUATION_BATCH : 0);
    }
    return bytes;
}

void ps_check_split(ps_check *check, const ps_plan *plan)
{
    const char *field = "spec.split_evaluation";

    if (!plan->spec->split_evaluation || check->count > 0) {
        return;
    }
    if (!plan->policy->is_deterministic) {
        ps_check_bad(check, field,
                     "is true; with %s each worker has weights of its own: only with bsp",
                     plan->policy->name);
    }
    if (plan->assignment->redundancy > 1) {
        ps_check_bad(check, field,
                     "is true; with redundancy %u a worker may be overtaken and leave its share "
                     "out: only with 1",
                     plan->assignment->redundancy);
    }
    if (part_bytes(plan) > PS_EVALUATION_PART_MAX) {
        ps_check_bad(check, field,
                     "is true; a worker's part takes %" PRIu64 " bytes, with every score of its "
                     "share: %d are allowed",
                     part_bytes(plan), PS_EVALUATION_PART_MAX);
    }
}
