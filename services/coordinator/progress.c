/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - sums up what the workers of an attempt tell of themselves. */
#include "services/coordinator/attempt.h"

#include "common/job/counts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RATE_US = 1000000 };

bool ps_rank_is_lost(const ps_attempt *a, uint32_t rank)
{
    return a->commit.members[a->told[rank].member].is_lost;
}

static void sum_up(ps_attempt *a, Psgd__V1__Progress *sum)
{
    ps_counts_sum all = {0};
    ps_counts job;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (a->told[r].progress) {
            ps_counts one = ps_counts_get(&a->told[r].progress->base, PS_OF_WORKER);

            ps_counts_add(&all, &one, ps_rank_is_lost(a, r));
        }
    }
    job = ps_counts_of_job(&all);
    ps_counts_put(&job, PS_OF_JOB, &sum->base);
    sum->workers_alive = ps_commit_workers_alive(&a->commit);
    sum->workers_total = a->plan->spec->workers;
}

static void measure_rate(ps_attempt *a, Psgd__V1__Progress *sum, int64_t now_us)
{
    uint64_t samples = 0;
    double seconds;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (a->told[r].progress) {
            samples += a->told[r].progress->samples;
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
    for (uint32_t r = 0; r < a->placement.rank_count && text[0] == '\0'; r++) {
        if (a->told[r].progress && !ps_rank_is_lost(a, r)) {
            snprintf(text, sizeof text, "%s", a->told[r].progress->waiting_for);
        }
    }
    ps_text_set(&sum->waiting_for, text);
}

/* The mean of a metric over the ranks that live and have it. */
static double mean_of(const ps_attempt *a, const char *metric)
{
    double sum = 0;
    uint32_t n = 0;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        const Psgd__V1__WorkerProgress *p = a->told[r].progress;

        for (size_t m = 0; p && !ps_rank_is_lost(a, r) && m < p->n_metrics; m++) {
            if (strcmp(p->metrics[m]->key, metric) == 0) {
                sum += p->metrics[m]->value;
                n++;
            }
        }
    }
    return sum / n;
}

/* All ranks have the same metrics: the first that lives names them. */
static void take_means(ps_attempt *a)
{
    uint32_t r = 0;

    while (r < a->placement.rank_count && (!a->told[r].progress || ps_rank_is_lost(a, r))) {
        r++;
    }
    for (size_t k = 0; r < a->placement.rank_count && k < a->told[r].progress->n_metrics; k++) {
        const char *metric = a->told[r].progress->metrics[k]->key;

        ps_job_set_result(a->job->record.job, metric, mean_of(a, metric));
    }
}

/* The result is the mean over the workers' last evaluations, or what their parts of one
 * make together; true when all have done one more. */
static bool take_metrics(ps_attempt *a)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (ps_rank_is_lost(a, r)) {
            continue;
        }
        if (!a->told[r].progress) {
            return false;
        }
        if (a->told[r].progress->evaluations < least) {
            least = a->told[r].progress->evaluations;
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
    take_means(a);
    return true;
}

static void take_one(ps_told *told, const Psgd__V1__WorkerProgress *progress)
{
    if (told->progress) {
        psgd__v1__worker_progress__free_unpacked(told->progress, NULL);
    }
    told->progress = (void *)ps_message_copy(&progress->base);
    if (told->progress->part) {
        if (told->part) {
            psgd__v1__evaluation_part__free_unpacked(told->part, NULL);
        }
        told->part = told->progress->part;
        told->progress->part = NULL;
    }
}

void ps_progress_take(ps_attempt *a, ps_peer *peer, Psgd__V1__WorkerProgress *const *progress,
                      size_t count, int64_t now_us)
{
    Psgd__V1__Progress *sum = ps_job_progress(a->job->record.job);
    const ps_member *m = ps_peer_member(peer);

    if (m->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
        return;
    }
    for (size_t i = 0; i < count; i++) { /* of ranks that it does not carry nothing is taken */
        uint32_t rank = progress[i]->rank;

        if (rank >= m->rank && rank - m->rank < m->rank_count && rank < a->placement.rank_count) {
            take_one(&a->told[rank], progress[i]);
        }
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
