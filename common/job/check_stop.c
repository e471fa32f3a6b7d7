/* SPDX-License-Identifier: Apache-2.0 */
/* check_stop.c - see plan_impl.h: what ends a job beside its epochs. */
#include "common/job/plan_impl.h"

#include "common/base/nearest.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/job/spec.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { EPOCHS_MAX = 100000, EPOCHS_DEFAULT = 2 };
static const uint64_t steps_max = UINT64_C(1000000000000);
static const double seconds_min = 0.001, seconds_max = 1e9;

void ps_check_bounds(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;
    uint64_t per_epoch = plan->batches_per_epoch;

    if (spec->max_steps > steps_max) {
        ps_check_bad(check, "spec.max_steps",
                     "is %" PRIu64 "; 1 to %" PRIu64 " are allowed, or 0 for no limit",
                     spec->max_steps, steps_max);
    }
    if (spec->max_seconds != 0 &&
        !(spec->max_seconds >= seconds_min && spec->max_seconds <= seconds_max)) {
        ps_check_bad(check, "spec.max_seconds",
                     "is %.15g; %.15g to %.15g are allowed, or 0 for no limit", spec->max_seconds,
                     seconds_min, seconds_max);
    }
    if (spec->epochs == 0 && spec->max_steps > 0 && per_epoch > 0) {
        uint64_t needed = (spec->max_steps - 1) / per_epoch + 1;

        spec->epochs = needed < EPOCHS_MAX ? (uint32_t)needed : EPOCHS_MAX;
    } else if (spec->epochs == 0 && spec->max_seconds > 0) {
        spec->epochs = EPOCHS_MAX;
    }
    ps_check_u32(check, "spec.epochs", &spec->epochs, EPOCHS_DEFAULT, 1, EPOCHS_MAX);
    plan->total_steps = per_epoch * spec->epochs;
    if (spec->max_steps > 0 && spec->max_steps < plan->total_steps) {
        plan->total_steps = spec->max_steps;
    }
}

/* Appends to `text` the names that stop_at.metric and checkpoint.best_by may have, and writes them
 * to `names`: "loss" and the job's metrics. Returns their number. */
static size_t list_names(const ps_plan *plan, ps_strbuf *text, const char **names)
{
    size_t count = 0;

    names[count++] = "loss";
    for (size_t i = 0; i < plan->metric_count; i++) {
        names[count++] = plan->metrics[i].metric->name;
    }
    for (size_t i = 0; i < count; i++) {
        ps_strbuf_printf(text, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return count;
}

size_t ps_check_metric(ps_check *check, const ps_plan *plan, const char *field, const char *name,
                       bool *is_cost)
{
    const char *names[1 + PS_METRICS_MAX], *meant;
    ps_strbuf text = {0};
    size_t count = list_names(plan, &text, names), at = 0;

    while (at < count && strcmp(names[at], name) != 0) {
        at++;
    }
    if (at == count) {
        meant = ps_nearest(name, names, count);
        ps_check_bad(check, field,
                     "is \"%s\"%s%s%s; allowed: %s (loss, and the metrics of the job: --metric or "
                     "spec.metrics adds others)",
                     PS_SHORT(name, 40), meant != NULL ? "; did you mean \"" : "",
                     meant != NULL ? meant : "", meant != NULL ? "\"?" : "", ps_strbuf_text(&text));
        at = 0;
    }
    *is_cost = at == 0 ? !plan->spec->optimizer->maximise : plan->metrics[at - 1].metric->is_cost;
    ps_strbuf_fini(&text);
    return at;
}

void ps_check_stop(ps_check *check, ps_plan *plan)
{
    Psgd__V1__StopSpec *stop = plan->spec->stop_at;

    if (stop == NULL) {
        return;
    }
    if (!isfinite(stop->value)) {
        ps_check_bad(check, "spec.stop_at.value", "is %g; a finite number is allowed", stop->value);
    }
    if (stop->metric[0] == '\0' && plan->metric_count > 0) {
        ps_spec_set(&stop->metric, plan->metrics[0].metric->name);
    }
    plan->stop_metric =
        ps_check_metric(check, plan, "spec.stop_at.metric", stop->metric, &plan->stop_is_cost);
}
