/* SPDX-License-Identifier: Apache-2.0 */
/* early_end.c - ends a job before its last step: by spec.stop_at, by spec.max_seconds, or, if
 * rounds vary, when the workers together have taken all steps.
 *
 * The answers to heartbeats tell the workers to hold. When each has reported the clock at which
 * it is held, all are told the largest of these clocks. No worker has begun that clock, so all end
 * there. If the coordinator restarts in between, it finds workers that are held and does the same
 * again.
 */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

/* Returns the value of stop_at's metric in the job's result; NULL: the job has no stop_at, or its
 * result lacks the metric. */
static const double *goal_value(const ps_attempt *a)
{
    const Psgd__V1__Job *job = a->job->record.job;
    const Psgd__V1__StopSpec *goal = a->plan->spec->stop_at;

    for (size_t i = 0; goal != NULL && i < job->n_result; i++) {
        if (strcmp(job->result[i]->key, goal->metric) == 0) {
            return &job->result[i]->value;
        }
    }
    return NULL;
}

/* Returns whether the job's last evaluation reaches stop_at, in a job whose workers cannot decide
 * this by themselves. */
static bool is_reached(const ps_attempt *a)
{
    const double *value = goal_value(a);
    double values[PS_METRICS_MAX];

    if (value == NULL || a->job->record.job->evaluations == 0 || ps_stop_is_common(a->plan)) {
        return false;
    }
    for (size_t i = 0; i < PS_METRICS_MAX; i++) {
        values[i] = *value; /* ps_stop_is_reached reads only the metric of stop_at */
    }
    return ps_stop_is_reached(a->plan, *value, values);
}

/* Returns whether the job's rounds vary and its workers together have taken as many steps as all of
 * them were to take: total_steps times their number. */
static bool has_all_iterations(const ps_attempt *a)
{
    uint64_t iterations = 0;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        iterations += a->told[r].progress != NULL ? a->told[r].progress->iterations : 0;
    }
    return a->plan->rounds_vary && iterations >= a->plan->total_steps * a->plan->spec->workers;
}

static ps_stop_cause find_cause(const ps_attempt *a)
{
    bool has_goal = a->plan->spec->stop_at != NULL, is_held = false;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        const Psgd__V1__WorkerProgress *told = a->told[r].progress;

        if (told != NULL && !ps_rank_is_lost(a, r)) {
            if (has_goal && told->reached_stop && ps_stop_is_common(a->plan)) {
                return PS_STOP_GOAL;
            }
            is_held = is_held || told->held_at > 0;
        }
    }
    if (is_reached(a)) {
        return PS_STOP_GOAL;
    }
    if (has_all_iterations(a)) {
        return PS_STOP_ITERATIONS;
    }
    return !is_held ? PS_STOP_NONE : has_goal ? PS_STOP_GOAL : PS_STOP_SECONDS;
}

/* Returns the largest clock at which a live rank is held; 0: one of them has not reported yet at
 * which clock it is held. */
static uint64_t agreed_clock(const ps_attempt *a)
{
    uint64_t clock = 0;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (ps_rank_is_lost(a, r)) {
            continue;
        }
        if (a->told[r].progress == NULL || a->told[r].progress->held_at == 0) {
            return 0;
        }
        if (a->told[r].progress->held_at > clock) {
            clock = a->told[r].progress->held_at;
        }
    }
    return clock;
}

static bool may_end_early(const ps_attempt *a)
{
    return a->plan->spec->stop_at != NULL || a->plan->spec->max_seconds > 0 || a->plan->rounds_vary;
}

uint64_t ps_attempt_early_end(const ps_attempt *a)
{
    if (!may_end_early(a)) {
        return 0;
    }
    return a->end_clock > 0 ? a->end_clock : agreed_clock(a);
}

/* As long as no end is agreed, any clock at which the rank is held counts: a restarted coordinator
 * does not know the end that the earlier one told the workers. */
bool ps_attempt_ended_early(const ps_attempt *a, uint32_t rank)
{
    const Psgd__V1__WorkerProgress *told = a->told[rank].progress;

    return told != NULL && may_end_early(a) && told->held_at > 0 &&
           (a->end_clock == 0 || told->held_at == a->end_clock);
}

static bool is_running(const ps_attempt *a)
{
    return a->commit.stage == PS_STAGE_GOING &&
           a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
}

static void begin(ps_attempt *a, ps_stop_cause cause)
{
    a->end_cause = cause;
    ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                "%s is reached: all workers end at the same step",
                cause == PS_STOP_GOAL      ? "stop_at"
                : cause == PS_STOP_SECONDS ? "max_seconds"
                                           : "the number of iterations");
}

static void on_limit(ps_event *event, bool ok)
{
    ps_attempt *a = PS_CONTAINER_OF(event, ps_attempt, limit.event);

    if (ok && a->job && is_running(a) && a->end_cause == PS_STOP_NONE) {
        begin(a, PS_STOP_SECONDS);
    }
}

void ps_attempt_limit(ps_attempt *a)
{
    const Psgd__V1__Job *job = a->job->record.job;
    double limit_s = a->plan->spec->max_seconds, begun_s, left_s;

    if (limit_s <= 0 || !job->start_time) {
        return;
    }
    begun_s = (double)job->start_time->seconds + job->start_time->nanos * 1e-9;
    left_s = begun_s + limit_s - (double)ps_clock_wall_us() * 1e-6;
    /* if the wall clock was set meanwhile, the time left may be negative or too long */
    left_s = left_s < 0 ? 0 : left_s > limit_s ? limit_s : left_s;
    a->limit.event.fire = on_limit;
    ps_loop_after(a->c->loop, &a->limit, (int64_t)(left_s * 1e6));
}

void ps_attempt_guide(ps_attempt *a, Psgd__V1__HeartbeatResponse *answer)
{
    if (!is_running(a)) {
        return;
    }
    if (a->end_cause == PS_STOP_NONE && find_cause(a) != PS_STOP_NONE) {
        begin(a, find_cause(a));
    }
    if (a->end_cause == PS_STOP_NONE) {
        return;
    }
    if (a->end_clock == 0) {
        a->end_clock = agreed_clock(a);
    }
    answer->end_clock = a->end_clock;
    answer->directive = a->end_clock > 0 ? PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_END
                                         : PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_HOLD;
}

void ps_attempt_describe_end(ps_attempt *a)
{
    const double *value = goal_value(a);
    ps_stop_end end = {
        .cause = a->end_cause,
        .step = a->job->record.job->progress ? a->job->record.job->progress->step : 0,
        .has_value = value != NULL,
        .value = value != NULL ? *value : 0,
    };
    char reason[PS_STOP_REASON_MAX], text[PS_STOP_TEXT_MAX];

    ps_stop_describe(a->plan, &end, reason, text);
    ps_commit_note(&a->commit, reason, text);
}
