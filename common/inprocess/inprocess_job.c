/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_job.c - see inprocess.h: the job's message for users, summed up over the workers. */
#include "common/inprocess/inprocess_impl.h"

#include "common/base/clock.h"
#include "common/job/counts.h"
#include "common/train/counted.h"

enum { RATE_US = 1000000 };

ps_counts inprocess_counts_of(ps_inprocess_job *run, const inprocess_worker *w)
{
    ps_trainer_progress progress = ps_trainer_get_progress(w->trainer);
    ps_exchange_stats stats = ps_exchange_get_stats(w->exchange);
    char whom[sizeof run->whom];

    return ps_counted_by_worker(run->plan, &progress, &stats,
                                ps_gate_waited_s(ps_exchange_gate(w->exchange), whom, sizeof whom));
}

static void sum_up(ps_inprocess_job *run, Psgd__V1__Progress *sum, uint64_t *samples)
{
    ps_counts_sum all = {0};
    ps_counts job;

    psgd__v1__progress__init(sum);
    *samples = 0;
    run->whom[0] = '\0';
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_counts one = inprocess_counts_of(run, &run->workers[i]);

        ps_counts_add(&all, &one, false);
        *samples += (uint64_t)one.v[PS_COUNT_SAMPLES];
    }
    job = ps_counts_of_job(&all);
    ps_counts_add_server(&job, &run->server_counts); /* zeros until training is over */
    ps_counts_put(&job, PS_OF_JOB, &sum->base);
    sum->workers_alive = sum->workers_total = run->worker_count;
    sum->waiting_for = run->whom;
}

static void measure_rate(ps_inprocess_job *run, Psgd__V1__Progress *sum, uint64_t samples)
{
    int64_t now_us = ps_clock_us();
    double seconds;

    if (now_us - run->rate[1].us >= RATE_US) {
        run->rate[0] = run->rate[1];
        run->rate[1].us = now_us;
        run->rate[1].samples = samples;
        run->rate[1].step = sum->step;
    }
    seconds = (double)(now_us - run->rate[0].us) * 1e-6;
    if (seconds <= 0) {
        return;
    }
    sum->samples_per_second = (double)(samples - run->rate[0].samples) / seconds;
    if (sum->step > run->rate[0].step) {
        sum->eta_seconds = (double)(sum->total_steps - sum->step) * seconds /
                           (double)(sum->step - run->rate[0].step);
    }
}

static void put_result(ps_inprocess_job *run, const char *name, double value)
{
    Psgd__V1__Job__ResultEntry *entry = &run->results[run->job.n_result];

    psgd__v1__job__result_entry__init(entry);
    entry->key = (char *)name;
    entry->value = value;
    run->result_ptrs[run->job.n_result++] = entry;
}

static void put_results(ps_inprocess_job *run, double loss, const double *values)
{
    const ps_plan *plan = run->plan;

    put_result(run, "loss", loss);
    for (size_t m = 0; m < plan->metric_count; m++) {
        put_result(run, plan->metrics[m].metric->name, values[m]);
    }
}

/* Sets the result. If evaluations are split, it is that of the last one that all workers have done,
 * merged of their shares. Else it is the mean of each worker's own last evaluation. There is no
 * result before every worker has evaluated. */
static void take_results(ps_inprocess_job *run)
{
    const ps_plan *plan = run->plan;
    double loss = 0, values[PS_METRICS_MAX] = {0};

    run->job.result_step = ps_trainer_get_progress(run->workers[0].trainer).evaluated_step;
    if (plan->spec->split_evaluation) {
        if (inprocess_merge_parts(run, inprocess_evaluations_done(run), &loss, values)) {
            put_results(run, loss, values);
        }
        return;
    }
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_trainer_progress p = ps_trainer_get_progress(run->workers[i].trainer);

        if (p.evaluations == 0) {
            return;
        }
        loss += p.eval_loss / run->worker_count;
        for (size_t m = 0; m < plan->metric_count; m++) {
            values[m] += p.eval_values[m] / run->worker_count;
        }
    }
    put_results(run, loss, values);
}

static void set_time(Google__Protobuf__Timestamp *time, int64_t wall_us)
{
    google__protobuf__timestamp__init(time);
    time->seconds = wall_us / 1000000;
    time->nanos = (int32_t)(wall_us % 1000000) * 1000;
}

/* Reads VmHWM and not getrusage(), which also counts the memory of the process before exec. */
uint64_t ps_inprocess_job_peak_bytes(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    unsigned long long kib = 0;
    char line[128];

    while (status != NULL && fgets(line, sizeof line, status) != NULL &&
           sscanf(line, "VmHWM: %llu kB", &kib) != 1) {
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib * 1024;
}

const Psgd__V1__Job *ps_inprocess_job_now(ps_inprocess_job *run)
{
    Psgd__V1__Job *job = &run->job;
    uint64_t samples;

    psgd__v1__job__init(job);
    job->id = (char *)run->conf.job_id;
    job->spec = run->plan->spec;
    job->state = run->state;
    job->attempt = 1;
    if (!ps_is_ok(&run->result)) {
        job->reason = (char *)(run->result.code == PS_CANCELLED ? "CANCELLED"
                               : run->has_diverged              ? PS_DIVERGED
                               : run->is_unstored               ? "STORE_FAILED"
                                                                : "FAILED");
        job->message = run->result.text;
    } else {
        job->reason = run->reason;
        job->message = run->message;
    }
    sum_up(run, &run->progress, &samples);
    if (run->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        measure_rate(run, &run->progress, samples);
    }
    job->progress = &run->progress;
    if (run->began_wall_us != 0) {
        set_time(&run->began, run->began_wall_us);
        job->create_time = job->start_time = &run->began;
    }
    if (run->ended_wall_us != 0) {
        set_time(&run->ended, run->ended_wall_us);
        job->end_time = &run->ended;
        run->progress.samples_per_second =
            (double)samples * 1e6 / (double)(run->ended_wall_us - run->began_wall_us + 1);
    }
    job->result = run->result_ptrs;
    take_results(run);
    job->artifacts = run->file_ptrs;
    job->n_artifacts = run->file_count;
    return job;
}

const Psgd__V1__Job *ps_inprocess_job_next_evaluation(ps_inprocess_job *run)
{
    const Psgd__V1__Job *job = ps_inprocess_job_now(run);
    uint32_t done = inprocess_evaluations_done(run);
    double loss, values[PS_METRICS_MAX];

    if (run->evaluations < done && run->plan->spec->split_evaluation) {
        run->evaluations = done;
        return job->n_result > 0 ? job : NULL;
    }
    while (run->evaluations < done) {
        ps_trainer_evaluation first;

        if (inprocess_means(run, ++run->evaluations, &loss, values) &&
            ps_trainer_get_evaluation(run->workers[0].trainer, run->evaluations, &first)) {
            run->job.result_step = first.step;
            run->job.n_result = 0;
            put_results(run, loss, values);
            return job;
        }
    }
    return NULL;
}
