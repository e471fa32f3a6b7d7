/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - sums up what the workers of an attempt report. */
#include "services/coordinator/driver_impl.h"

#include "common/job/counts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RATE_US = 1000000 };

bool ps_rank_is_lost(const ps_attempt *a, uint32_t rank)
{
    return a->commit.members[a->told[rank].member].is_lost;
}

/* Returns what the rank's program has reported last of a metric; NaN: nothing that is a number. */
static double program_metric(const Psgd__V1__WorkerProgress *p, const char *name)
{
    for (size_t i = 0; i < p->n_program_metrics; i++) {
        if (strcmp(p->program_metrics[i]->key, name) == 0) {
            double value = p->program_metrics[i]->value;

            return isfinite(value) ? value : (double)NAN;
        }
    }
    return (double)NAN;
}

/* Sets the means of what the job's programs report. Other names that a node reports are ignored. */
static void take_program_metrics(const ps_attempt *a, Psgd__V1__Progress *sum)
{
    const Psgd__V1__JobSpec *spec = a->plan->spec;

    ps_progress_clear_program_metrics(sum);
    for (size_t i = 0; i < spec->n_program_metrics; i++) {
        const char *name = spec->program_metrics[i];
        double total = 0;
        uint32_t n = 0;

        for (uint32_t r = 0; r < a->placement.rank_count; r++) {
            if (a->told[r].progress && !ps_rank_is_lost(a, r)) {
                double value = program_metric(a->told[r].progress, name);

                total += isnan(value) ? 0 : value;
                n += isnan(value) ? 0 : 1;
            }
        }
        if (n > 0 && isfinite(total)) {
            ps_progress_add_program_metric(sum, name, total / n);
        }
    }
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
    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->nodes[i].counters) {
            ps_counts one = ps_counts_get(&a->nodes[i].counters->base, PS_OF_SERVER);

            ps_counts_add_server(&job, &one);
        }
    }
    ps_counts_put(&job, PS_OF_JOB, &sum->base);
    sum->workers_alive = ps_commit_workers_alive(&a->commit);
    sum->workers_total = a->plan->spec->workers;
    take_program_metrics(a, sum);
    if (a->partitions) {
        ps_partitions_sum_up(a, sum);
    }
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
    if (samples == 0 || sum->step == 0) {
        return; /* a rank reports step 0 until it has loaded the checkpoint from which it goes on */
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

static bool waits_for_nodes(const Psgd__V1__WorkerProgress *p)
{
    return p->n_waits_for_servers + p->n_waits_for_workers > 0;
}

/* Copies what the first live rank that waits says about its wait, if `text` is empty. for_nodes:
 * only ranks that wait for servers or workers; else only the others, which wait for room on their
 * disk. */
static void take_words(const ps_attempt *a, bool for_nodes, char *text, size_t cap)
{
    for (uint32_t r = 0; r < a->placement.rank_count && text[0] == '\0'; r++) {
        const Psgd__V1__WorkerProgress *p = a->told[r].progress;

        if (p && !ps_rank_is_lost(a, r) && waits_for_nodes(p) == for_nodes) {
            snprintf(text, cap, "%s", p->waiting_for);
        }
    }
}

/* Sets waiting_for, for what the job waits: for room on a worker's disk; else for the nodes that
 * the commit finds by all reports; else for the nodes that a worker names. Empty: for nothing. */
static void find_waited_for(ps_attempt *a, Psgd__V1__Progress *sum)
{
    char text[200] = "";

    take_words(a, false, text, sizeof text);
    if (text[0] == '\0') {
        ps_commit_waiting_for(&a->commit, ps_coordinator_now_us(a->c), text, sizeof text);
    }
    take_words(a, true, text, sizeof text);
    ps_text_set(&sum->waiting_for, text);
}

void ps_progress_servers(ps_attempt *a, int64_t now_us)
{
    sum_up(a, ps_job_progress(a->job->record.job));
    ps_live_progress(a->job, now_us);
}

void ps_progress_waits(ps_attempt *a, int64_t now_us)
{
    Psgd__V1__Progress *sum = ps_job_progress(a->job->record.job);
    char before[200];

    if (a->commit.state != PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        return;
    }
    snprintf(before, sizeof before, "%s", sum->waiting_for);
    find_waited_for(a, sum);
    if (strcmp(before, sum->waiting_for) != 0) {
        ps_live_progress(a->job, now_us);
    }
}

/* Returns the value of a metric in a rank's evaluation `number`. Returns NULL if the rank's report
 * does not have that evaluation, any more or yet, or the evaluation lacks the metric. */
static const double *value_of(const Psgd__V1__WorkerProgress *p, uint32_t number,
                              const char *metric)
{
    for (size_t m = 0; p->evaluations == number && m < p->n_metrics; m++) {
        if (strcmp(p->metrics[m]->key, metric) == 0) {
            return &p->metrics[m]->value;
        }
    }
    for (size_t i = 0; i < p->n_past; i++) {
        const Psgd__V1__WorkerEvaluation *past = p->past[i];

        for (size_t m = 0; past->number == number && m < past->n_metrics; m++) {
            if (strcmp(past->metrics[m]->key, metric) == 0) {
                return &past->metrics[m]->value;
            }
        }
    }
    return NULL;
}

/* Computes the mean of a metric in evaluation `number` over all live ranks that have sent a report.
 * Returns false if one of these reports lacks the value, or if there is no report. */
static bool mean_of(const ps_attempt *a, uint32_t number, const char *metric, double *mean)
{
    double sum = 0;
    uint32_t n = 0;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (a->told[r].progress && !ps_rank_is_lost(a, r)) {
            const double *value = value_of(a->told[r].progress, number, metric);

            if (!value) {
                return false;
            }
            sum += *value;
            n++;
        }
    }
    *mean = sum / n;
    return n > 0;
}

/* Returns the step of a rank's evaluation `number`; 0: it is not known. */
static uint64_t step_of(const Psgd__V1__WorkerProgress *p, uint32_t number)
{
    if (p == NULL || p->evaluations == number) {
        return p != NULL ? p->evaluated_step : 0;
    }
    for (size_t i = 0; i < p->n_past; i++) {
        if (p->past[i]->number == number) {
            return p->past[i]->step;
        }
    }
    return 0;
}

/* Returns the step of evaluation `number`, by the first live rank that has it; 0: it is not known.
 */
static uint64_t evaluated_step(const ps_attempt *a, uint32_t number)
{
    uint64_t step = 0;

    for (uint32_t r = 0; r < a->placement.rank_count && step == 0; r++) {
        step = ps_rank_is_lost(a, r) ? 0 : step_of(a->told[r].progress, number);
    }
    return step;
}

/* Returns the metric by which the best checkpoint is chosen; "": none. */
static const char *best_by(const ps_attempt *a)
{
    return a->plan->spec->checkpoint != NULL ? a->plan->spec->checkpoint->best_by : "";
}

/* Notes as a score the value that the metric of checkpoint.best_by has in the job's result, if the
 * step of the result is known. */
static void note_score(ps_attempt *a)
{
    const Psgd__V1__Job *job = a->job->record.job;

    for (size_t i = 0; job->result_step > 0 && i < job->n_result; i++) {
        if (strcmp(job->result[i]->key, best_by(a)) == 0) {
            ps_checkpoints_evaluated(a, job->result_step, job->result[i]->value);
        }
    }
}

/* Makes evaluation `number`, whose means are now the job's result, an event of the job. */
static void tell(ps_attempt *a, uint32_t number)
{
    Psgd__V1__Job *job = a->job->record.job;

    job->result_step = evaluated_step(a, number);
    job->evaluations = number;
    note_score(a);
    ps_live_publish(a->job, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS);
}

/* Notes the score of evaluation `number`, which an earlier process has told: scores are not
 * stored. */
static void note_told(ps_attempt *a, uint32_t number)
{
    uint64_t step = evaluated_step(a, number);
    double value;

    if (step > 0 && mean_of(a, number, best_by(a), &value)) {
        ps_checkpoints_evaluated(a, step, value);
    }
}

/* Puts the means of the loss and of the metrics that the job names into its result; ignores others
 * that a node reports. Returns whether there was a mean, so that evaluation `number` is the
 * result. */
static bool take_means(ps_attempt *a, uint32_t number)
{
    bool is_taken = false;

    for (size_t k = 0; k <= a->plan->metric_count; k++) {
        const char *metric = k == 0 ? "loss" : a->plan->metrics[k - 1].metric->name;
        double mean;

        if (mean_of(a, number, metric, &mean)) {
            ps_job_set_result(a->job->record.job, metric, mean);
            is_taken = true;
        }
    }
    return is_taken;
}

/* Returns the number of evaluations that every live rank has done. */
static uint32_t evaluations_done(const ps_attempt *a)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (ps_rank_is_lost(a, r)) {
            continue;
        }
        if (!a->told[r].progress) {
            return 0;
        }
        if (a->told[r].progress->evaluations < least) {
            least = a->told[r].progress->evaluations;
        }
    }
    return least == UINT32_MAX ? 0 : least;
}

/* Tells of the newest evaluation, merged of the ranks' parts, if it was not told yet. Notes before
 * the score of the one that an earlier process has told. */
static void publish_split(ps_attempt *a, uint32_t done)
{
    uint32_t told = a->job->record.job->evaluations;

    if (done > 0 && a->evaluations < told) {
        note_score(a);
        a->evaluations = told;
    }
    if (done > a->evaluations && ps_evaluation_parts_merge(a, done)) {
        a->evaluations = done;
        tell(a, done);
    }
}

/* Updates the job's result from the evaluations that all live ranks have done and that were not
 * told yet, and publishes each. The result is the mean over the workers; with split_evaluation it
 * is merged of the ranks' parts, for the newest evaluation only. Returns whether there was a new
 * one. */
static bool publish_evaluations(ps_attempt *a)
{
    uint32_t done = evaluations_done(a), told = a->job->record.job->evaluations;

    if (a->plan->spec->split_evaluation) {
        publish_split(a, done);
    }
    while (!a->plan->spec->split_evaluation && a->evaluations < done) {
        if (++a->evaluations <= told) {
            note_told(a, a->evaluations);
        } else if (take_means(a, a->evaluations)) {
            tell(a, a->evaluations);
        }
    }
    return a->job->record.job->evaluations > told;
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

void ps_progress_take(ps_attempt *a, ps_attempt_node *node,
                      Psgd__V1__WorkerProgress *const *progress, size_t count, int64_t now_us)
{
    Psgd__V1__Progress *sum = ps_job_progress(a->job->record.job);
    const ps_member *m = ps_attempt_node_member(node);

    if (m->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
        return;
    }
    /* reports on ranks that the process does not carry are ignored */
    for (size_t i = 0; i < count; i++) {
        uint32_t rank = progress[i]->rank;

        if (rank >= m->rank && rank - m->rank < m->rank_count && rank < a->placement.rank_count) {
            take_one(&a->told[rank], progress[i]);
            ps_commit_waits(&a->commit, node->index, rank, progress[i]->waits_for_servers,
                            progress[i]->n_waits_for_servers, progress[i]->waits_for_workers,
                            progress[i]->n_waits_for_workers);
        }
    }
    sum_up(a, sum);
    measure_rate(a, sum, now_us);
    find_waited_for(a, sum);
    if (!publish_evaluations(a)) {
        ps_live_progress(a->job, now_us);
    }
}

size_t ps_attempt_workers(const ps_attempt *a, Psgd__V1__WorkerProgress *list)
{
    size_t count = 0;

    for (uint32_t r = 0; r < a->placement.rank_count && r < PS_LOST_MAX; r++) {
        if (a->told[r].progress) {
            list[count] = *a->told[r].progress;
            list[count].n_past = 0;
            list[count++].part = NULL;
        }
    }
    return count;
}
