/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_stop.c - see inprocess.h: merges the evaluations of all workers, and ends a job early
 * at its goal or after its time. */
#include "common/inprocess/inprocess_impl.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/train/evaluation.h"

#include <string.h>

uint32_t inprocess_evaluations_done(ps_inprocess_job *run)
{
    uint32_t done = UINT32_MAX;

    for (uint32_t i = 0; i < run->worker_count; i++) {
        uint32_t mine = ps_trainer_get_progress(run->workers[i].trainer).evaluations;

        done = mine < done ? mine : done;
    }
    return done;
}

bool inprocess_merge_parts(ps_inprocess_job *run, uint32_t number, double *loss, double *values)
{
    ps_evaluation whole;
    bool is_whole = number > 0;

    ps_evaluation_init(&whole, run->plan);
    for (uint32_t i = 0; i < run->worker_count && is_whole; i++) {
        uint32_t evaluation;
        ps_buf *part = ps_trainer_get_part(run->workers[i].trainer, &evaluation);
        ps_status st = part == NULL || evaluation != number
                           ? ps_fail(PS_NOT_FOUND, "no evaluation")
                           : ps_evaluation_merge_part(&whole, part->data, part->len);

        is_whole = ps_is_ok(&st);
        ps_buf_unref(part);
    }
    is_whole = is_whole && whole.samples == run->plan->test_count;
    if (is_whole) {
        ps_evaluation_values(&whole, values);
        *loss = ps_evaluation_loss(&whole);
    }
    ps_evaluation_fini(&whole);
    return is_whole;
}

bool inprocess_means(ps_inprocess_job *run, uint32_t number, double *loss, double *values)
{
    size_t count = run->plan->metric_count;

    *loss = 0;
    for (size_t m = 0; m < count; m++) {
        values[m] = 0;
    }
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_trainer_evaluation one;

        if (!ps_trainer_get_evaluation(run->workers[i].trainer, number, &one)) {
            return false;
        }
        *loss += one.loss / run->worker_count;
        for (size_t m = 0; m < count; m++) {
            values[m] += one.values[m] / run->worker_count;
        }
    }
    return true;
}

/* Returns whether the job has reached stop_at: by the last evaluation of w, if all workers find the
 * same (ps_stop_is_common); else by the last evaluation that all workers have done, unless it was
 * checked before. The caller holds the mutex. */
static bool is_reached(ps_inprocess_job *run, const inprocess_worker *w)
{
    double loss, values[PS_METRICS_MAX];
    uint32_t number;

    if (ps_stop_is_common(run->plan)) {
        return ps_trainer_get_progress(w->trainer).reached_stop;
    }
    number = inprocess_evaluations_done(run);
    if (number == run->checked) {
        return false;
    }
    if (run->plan->spec->split_evaluation ? !inprocess_merge_parts(run, number, &loss, values)
                                          : !inprocess_means(run, number, &loss, values)) {
        return false;
    }
    run->checked = number;
    return ps_stop_is_reached(run->plan, loss, values);
}

/* Lets all workers end at the first clock that none of them has begun. The caller holds the
 * mutex. */
static void end_early(ps_inprocess_job *run, ps_stop_cause cause)
{
    uint64_t clock = 0;

    run->cause = cause;
    for (uint32_t i = 0; i < run->worker_count; i++) {
        uint64_t held = ps_gate_hold(ps_exchange_gate(run->workers[i].exchange));

        clock = held > clock ? held : clock;
    }
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_gate_end_at(ps_exchange_gate(run->workers[i].exchange), clock);
    }
    ps_log(PS_LOG_INFO, "psgd", "%s is reached: all workers end after %llu exchanges",
           cause == PS_STOP_GOAL ? "stop_at" : "max_seconds", (unsigned long long)clock);
}

void inprocess_look_for_end(void *arg)
{
    inprocess_worker *w = arg;
    ps_inprocess_job *run = w->run;
    bool has_goal = run->plan->spec->stop_at != NULL;

    if (!has_goal && run->limit_us == INT64_MAX) {
        return;
    }
    pthread_mutex_lock(&run->mutex);
    if (run->cause == PS_STOP_NONE && has_goal && is_reached(run, w)) {
        end_early(run, PS_STOP_GOAL);
    } else if (run->cause == PS_STOP_NONE && ps_clock_us() >= run->limit_us) {
        end_early(run, PS_STOP_SECONDS);
    }
    pthread_mutex_unlock(&run->mutex);
}

void inprocess_describe_end(ps_inprocess_job *run)
{
    const Psgd__V1__Job *job = ps_inprocess_job_now(run);
    ps_stop_end end = {.cause = run->cause, .step = job->progress->step};
    const Psgd__V1__StopSpec *goal = run->plan->spec->stop_at;

    for (size_t i = 0; goal != NULL && i < job->n_result; i++) {
        if (strcmp(job->result[i]->key, goal->metric) == 0) {
            end.has_value = true;
            end.value = job->result[i]->value;
        }
    }
    ps_stop_describe(run->plan, &end, run->reason, run->message);
}
