/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - sums up what the workers of an attempt tell of themselves. */
#include "services/coordinator/driver_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RATE_US = 1000000 };

static void sum_up(ps_attempt *a, Psgd__V1__Progress *sum)
{
    uint32_t told = 0;
    bool first = true;

    sum->step = sum->total_steps = 0;
    sum->epoch = 0;
    sum->loss = sum->accuracy = sum->seconds_waiting = 0;
    sum->resyncs = 0;
    sum->bytes_up = sum->bytes_down = sum->bytes_up_float32 = sum->bytes_down_float32 = 0;
    for (size_t i = 0; i < a->commit.count; i++) {
        const Psgd__V1__WorkerProgress *p = a->peers[i].progress;

        if (!p) {
            continue;
        }
        sum->resyncs += p->resyncs;
        sum->bytes_up += p->bytes_up;
        sum->bytes_down += p->bytes_down;
        sum->bytes_up_float32 += p->bytes_up_float32;
        sum->bytes_down_float32 += p->bytes_down_float32;
        if (a->commit.members[i].is_lost) {
            continue;
        }
        if (first || p->step < sum->step) {
            sum->step = p->step;
        }
        if (first || p->epoch < sum->epoch) {
            sum->epoch = p->epoch;
        }
        first = false;
        if (p->total_steps > sum->total_steps) {
            sum->total_steps = p->total_steps;
        }
        sum->loss += p->loss;
        sum->accuracy += p->accuracy;
        sum->seconds_waiting += p->seconds_waiting;
        told++;
    }
    if (told > 0) {
        sum->loss /= told;
        sum->accuracy /= told;
        sum->seconds_waiting /= told;
    }
    sum->workers_alive = ps_commit_workers_alive(&a->commit);
    sum->workers_total = a->plan->spec->workers;
}

static void measure_rate(ps_attempt *a, Psgd__V1__Progress *sum, int64_t now_us)
{
    uint64_t samples = 0;
    double seconds;

    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->peers[i].progress) {
            samples += a->peers[i].progress->samples;
        }
    }
    if (a->rate[1].us == 0 || now_us - a->rate[1].us >= RATE_US) {
        a->rate[0] = a->rate[1];
        a->rate[1].us = now_us;
        a->rate[1].samples = samples;
        a->rate[1].step = sum->step;
    }
    if (a->rate[0].us == 0) {
        return;
    }
    seconds = (double)(now_us - a->rate[0].us) / 1e6;
    if (seconds <= 0 || samples < a->rate[0].samples) {
        return;
    }
    sum->samples_per_second = (double)(samples - a->rate[0].samples) / seconds;
    sum->eta_seconds = 0;
    if (sum->step > a->rate[0].step && sum->total_steps > sum->step) {
        sum->eta_seconds = (double)(sum->total_steps - sum->step) * seconds /
                           (double)(sum->step - a->rate[0].step);
    }
}

/* Whom the workers wait for, by their own words; else whom the commit does. */
static void find_waited_for(ps_attempt *a, Psgd__V1__Progress *sum)
{
    char text[200];

    ps_commit_waiting_for(&a->commit, text, sizeof text);
    for (size_t i = 0; i < a->commit.count && text[0] == '\0'; i++) {
        if (a->peers[i].progress && !a->commit.members[i].is_lost) {
            snprintf(text, sizeof text, "%s", a->peers[i].progress->waiting_for);
        }
    }
    ps_text_set(&sum->waiting_for, text);
}

/* The result is the mean over the workers' last evaluations, or what their parts of one
 * make together; true when all have done one more. */
static bool take_metrics(ps_attempt *a)
{
    Psgd__V1__Job *job = a->job->record.job;
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->commit.members[i].role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ||
            a->commit.members[i].is_lost) {
            continue;
        }
        if (!a->peers[i].progress) {
            return false;
        }
        if (a->peers[i].progress->evaluations < least) {
            least = a->peers[i].progress->evaluations;
        }
    }
    if (least == UINT32_MAX || least <= a->evaluations) {
        return false;
    }
    if (a->plan->spec->split_evaluation) {
        if (!ps_evaluation_parts_merge(a, least)) {
            return false;
        }
        a->evaluations = least;
        return true;
    }
    a->evaluations = least;
    for (size_t i = 0; i < a->commit.count; i++) {
        const Psgd__V1__WorkerProgress *p = a->peers[i].progress;

        for (size_t k = 0; p && !a->commit.members[i].is_lost && k < p->n_metrics; k++) {
            double sum = 0;
            uint32_t n = 0;

            for (size_t j = 0; j < a->commit.count; j++) {
                const Psgd__V1__WorkerProgress *q = a->peers[j].progress;

                for (size_t m = 0; q && !a->commit.members[j].is_lost && m < q->n_metrics; m++) {
                    if (strcmp(q->metrics[m]->key, p->metrics[k]->key) == 0) {
                        sum += q->metrics[m]->value;
                        n++;
                    }
                }
            }
            ps_job_set_result(job, p->metrics[k]->key, sum / n);
        }
        if (p && !a->commit.members[i].is_lost) {
            break; /* all workers have the same metrics: one names them */
        }
    }
    return true;
}

void ps_progress_take(ps_attempt *a, ps_peer *peer, const Psgd__V1__WorkerProgress *progress,
                      int64_t now_us)
{
    Psgd__V1__Progress *sum = ps_job_progress(a->job->record.job);

    if (ps_peer_member(peer)->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
        return;
    }
    if (peer->progress) {
        psgd__v1__worker_progress__free_unpacked(peer->progress, NULL);
    }
    peer->progress = (void *)ps_message_copy(&progress->base);
    if (peer->progress->part) {
        if (peer->part) {
            psgd__v1__evaluation_part__free_unpacked(peer->part, NULL);
        }
        peer->part = peer->progress->part;
        peer->progress->part = NULL;
    }
    sum_up(a, sum);
    measure_rate(a, sum, now_us);
    find_waited_for(a, sum);
    if (take_metrics(a)) {
        ps_live_publish(a->job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS);
    } else {
        ps_live_progress(a->job, now_us);
    }
}
