/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c - see stop.h. */
#include "common/job/stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool is_good(const ps_plan *plan, double value)
{
    double goal = plan->spec->stop_at->value;

    return !isnan(value) && (plan->stop_is_cost ? value <= goal : value >= goal);
}

bool ps_stop_is_reached(const ps_plan *plan, double loss, const double *values)
{
    if (plan->spec->stop_at == NULL) {
        return false;
    }
    return is_good(plan, plan->stop_metric == 0 ? loss : values[plan->stop_metric - 1]);
}

bool ps_stop_is_common(const ps_plan *plan)
{
    return plan->policy->is_deterministic && !plan->spec->split_evaluation;
}

/* Writes whether the metric of stop_at has reached its goal. Workers that evaluate once more at the
 * end may get a worse value than the one that ended the job. The text then says that the goal had
 * been reached, and the value at the end. */
static void describe_goal(const ps_plan *plan, const ps_stop_end *end, char *text)
{
    const Psgd__V1__StopSpec *goal = plan->spec->stop_at;

    if (is_good(plan, end->value)) {
        snprintf(text, PS_STOP_TEXT_MAX, "%s %.6g has reached %.6g", goal->metric, end->value,
                 goal->value);
    } else if (end->cause == PS_STOP_GOAL) {
        snprintf(text, PS_STOP_TEXT_MAX, "%s had reached %.6g and is %.6g at the end", goal->metric,
                 goal->value, end->value);
    } else {
        snprintf(text, PS_STOP_TEXT_MAX, "%s %.6g has not reached %.6g", goal->metric, end->value,
                 goal->value);
    }
}

void ps_stop_describe(const ps_plan *plan, const ps_stop_end *end, char reason[PS_STOP_REASON_MAX],
                      char text[PS_STOP_TEXT_MAX])
{
    bool has_goal = plan->spec->stop_at != NULL && end->has_value;
    bool is_reached = end->cause == PS_STOP_GOAL || (has_goal && is_good(plan, end->value));
    char goal[PS_STOP_TEXT_MAX] = "";
    const char *bound = "";

    reason[0] = text[0] = '\0';
    if (has_goal) {
        describe_goal(plan, end, goal);
    }
    if (is_reached) {
        snprintf(reason, PS_STOP_REASON_MAX, "STOP_AT");
        bound = "stop_at";
    } else if (end->cause == PS_STOP_SECONDS || (end->cause == PS_STOP_NONE && !plan->rounds_vary &&
                                                 end->step < plan->total_steps)) {
        snprintf(reason, PS_STOP_REASON_MAX, "MAX_SECONDS");
        bound = "max_seconds";
    } else if (plan->spec->max_steps == plan->total_steps) {
        snprintf(reason, PS_STOP_REASON_MAX, "MAX_STEPS");
        bound = "max_steps";
    } else {
        snprintf(text, PS_STOP_TEXT_MAX, "%s", goal);
        return;
    }
    snprintf(text, PS_STOP_TEXT_MAX, "ended by %s at step %" PRIu64 " of %" PRIu64 "%s%.100s",
             bound, end->step, plan->total_steps, goal[0] != '\0' ? ": " : "", goal);
}
