/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - see trainer.h. */
#include "common/train/trainer_impl.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/stop.h"
#include "common/job/table_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Allocates the memory whose size the job chooses, so this can fail: for rounds, tables, gradients,
 * samples, their order and the optimizer's state. */
static ps_status take_memory(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    size_t n = plan->layout.param_count, features = plan->facts.features;
    bool has_state = !plan->optim_on_server && plan->optim->slots > 0;
    ps_status st = ps_trainer_init_rounds(t);

    if (ps_is_ok(&st)) {
        st = ps_trainer_init_tables(t);
    }

    if (!ps_is_ok(&st)) {
        return st;
    }
    t->grad = ps_buf_try_create(n * sizeof(float));
    t->x = calloc(t->batch * features, sizeof(float));
    t->targets = calloc(t->batch * plan->facts.target_width, sizeof *t->targets);
    t->order = calloc(ps_plan_order_count(plan), sizeof *t->order);
    if (has_state) {
        t->optim_state = calloc(n * plan->optim->slots, sizeof(float));
    }
    if (t->grad == NULL || t->x == NULL || t->targets == NULL || t->order == NULL ||
        (has_state && t->optim_state == NULL)) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "no memory for %zu parameters and blocks of %u samples of %zu values", n,
                       plan->spec->block_size, features);
    }
    t->grad->len = n * sizeof(float);
    return ps_ok();
}

/* If the job has sparse variables and all of them are sent as rows, makes the model clear only the
 * touched rows of their gradients. */
static void keep_rows(ps_trainer *t)
{
    const ps_layout *layout = &t->plan->layout;
    bool has_rows = false;

    for (uint32_t v = 0; v < layout->variable_count; v++) {
        if (layout->variables[v].is_sparse && t->plan->table_of[v] == PS_NO_TABLE) {
            return;
        }
        has_rows = has_rows || layout->variables[v].is_sparse;
    }
    if (has_rows) {
        memset(t->grad->data, 0, t->grad->len);
        ps_model_keep_rows(t->model, true);
    }
}

/* Lets as many threads compute as the job asks for, but at most one for each processor, because
 * more would wait for each other. The bits of results do not depend on the number. */
static void set_threads(ps_trainer *t)
{
    uint32_t wanted = t->plan->spec->worker_threads, most = ps_team_processors();

    ps_model_set_threads(t->model, wanted < most ? wanted : most);
}

/* Copies the last metrics that a program has reported to the progress. */
static void note_said(ps_trainer *t)
{
    if (t->conf.loop != NULL) {
        t->progress.accuracy = t->step_metrics.newest_accuracy;
        memcpy(t->progress.program_metrics, t->step_metrics.newest,
               sizeof t->progress.program_metrics);
    }
}

ps_status ps_trainer_create(const ps_trainer_conf *conf, ps_trainer **out)
{
    const ps_plan *plan = conf->plan;
    ps_trainer *t = ps_xcalloc(1, sizeof *t);
    ps_status st;

    t->conf = *conf;
    t->plan = plan;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_mutex_init(&t->files_mutex, NULL);
    t->batch =
        plan->spec->block_size > PS_EVALUATION_BATCH ? plan->spec->block_size : PS_EVALUATION_BATCH;
    ps_evaluation_init(&t->evaluation, plan);
    ps_step_metrics_init(&t->step_metrics, plan);
    note_said(t);
    st = ps_plan_model(plan, t->batch, &t->model);
    if (ps_is_ok(&st)) {
        set_threads(t);
        st = take_memory(t);
    }
    if (ps_is_ok(&st)) {
        st = ps_plan_feed(plan, conf->data, conf->rank, &t->feed);
    }
    if (ps_is_ok(&st) && ps_feed_is_far(t->feed)) {
        st = ps_ahead_create(t->feed, plan->spec->block_size, &t->ahead);
    }
    if (!ps_is_ok(&st)) {
        ps_trainer_destroy(t);
        return st;
    }
    keep_rows(t);
    ps_model_set_ascent(t->model, plan->spec->optimizer->maximise);
    t->weights = conf->weights;
    t->stop_at = UINT64_MAX;
    t->trace = ps_trainer_ring(plan);
    *out = t;
    return ps_ok();
}

void ps_trainer_destroy(ps_trainer *t)
{
    if (t == NULL) {
        return;
    }
    if (t->started) {
        pthread_join(t->thread, NULL);
    }
    ps_evaluation_fini(&t->evaluation);
    ps_step_metrics_fini(&t->step_metrics);
    ps_buf_unref(t->part);
    ps_trainer_drop_reports(t);
    ps_trainer_drop_program(t);
    ps_model_destroy(t->model);
    ps_trace_ring_destroy(t->trace);
    ps_trainer_fini_rounds(t);
    ps_trainer_fini_earlier(t);
    ps_trainer_fini_said(t);
    ps_trainer_fini_tables(t);
    ps_buf_unref(t->grad);
    free(t->optim_state);
    free(t->x);
    free(t->targets);
    free(t->order);
    ps_ahead_destroy(t->ahead);
    ps_feed_destroy(t->feed);
    pthread_mutex_destroy(&t->mutex);
    pthread_mutex_destroy(&t->files_mutex);
    free(t);
}

ps_train_memory ps_trainer_memory(const ps_trainer *t)
{
    const ps_data_facts *facts = &t->plan->facts;
    size_t n = t->plan->layout.param_count;
    size_t blocks = t->plan->table_params.v[PS_TABLE_PREFETCH] != 0 ? 2 : 1;

    return (ps_train_memory){
        .weights = n * sizeof(float),
        .gradients = n * sizeof(float),
        .optimizer = t->optim_state == NULL ? 0 : n * t->plan->optim->slots * sizeof(float),
        .activations = ps_model_memory(t->model),
        .samples =
            blocks * t->batch * ((size_t)facts->features + facts->target_width) * sizeof(float) +
            ps_plan_order_count(t->plan) * sizeof *t->order +
            (t->ahead != NULL ? ps_ahead_memory(t->ahead) : 0),
        .rounds = ps_trainer_rounds_memory(t),
    };
}

ps_buf *ps_trainer_grad(ps_trainer *t)
{
    return t->grad;
}

ps_trace_ring *ps_trainer_ring(const ps_plan *plan)
{
    const Psgd__V1__TraceSpec *spec = plan->spec->trace;

    return spec != NULL ? ps_trace_ring_create(spec->from_step, spec->steps)
                        : ps_trace_ring_create(0, 0);
}

ps_trace_ring *ps_trainer_trace(ps_trainer *t)
{
    return t->trace;
}

ps_trainer_progress ps_trainer_get_progress(ps_trainer *t)
{
    ps_trainer_progress p;

    pthread_mutex_lock(&t->mutex);
    p = t->progress;
    pthread_mutex_unlock(&t->mutex);
    return p;
}

ps_targets ps_trainer_targets(const ps_trainer *t)
{
    const ps_data_facts *facts = &t->plan->facts;

    return facts->classes > 0 ? ps_targets_classes(t->targets)
                              : ps_targets_values(t->targets, facts->target_width);
}

void ps_trainer_see_outputs(void *trainer, const float *y, size_t n)
{
    ps_trainer *t = trainer;

    ps_step_metrics_add(&t->step_metrics, y, ps_trainer_targets(t), n);
}

void ps_trainer_put_held_line(ps_trainer *t)
{
    if (t->last_row.step > 0) {
        ps_trainer_put_train(t, &t->last_row);
        t->last_row.step = 0;
    }
}

ps_train_row ps_trainer_row(ps_trainer *t, uint32_t epoch, uint32_t batch, uint64_t step)
{
    const ps_score *score = &t->score;
    char whom[8];
    ps_exchange_stats stats = ps_trainer_all_stats(t);
    int64_t now_us = ps_clock_us();

    ps_trainer_put_held_line(t); /* the held line points to the metrics that are replaced below */
    if (t->metrics_at != step) {
        t->metrics_at = step;
        ps_step_metrics_close(&t->step_metrics);
    }
    return (ps_train_row){
        .time_s = (double)(now_us - t->began_us) * 1e-6,
        .epoch = epoch + 1,
        .batch = (uint64_t)batch + 1,
        .step = step,
        .loss = score->loss_sum / (double)score->samples,
        /* only class targets have an accuracy; of a program it is what the program reported, or
         * NaN */
        .accuracy = t->conf.loop != NULL          ? t->step_metrics.accuracy
                    : t->plan->facts.classes == 0 ? (double)NAN
                                                  : (double)score->correct / (double)score->samples,
        .samples_per_s = (double)score->samples * 1e6 / (double)(now_us - t->last_row_us + 1),
        .bytes_up = stats.bytes_up,
        .bytes_down = stats.bytes_down,
        .wait_s = ps_gate_waited_s(t->gate, whom, sizeof whom) + t->earlier.wait_s,
        .values = t->step_metrics.values,
    };
}

void ps_trainer_report_step(ps_trainer *t, uint32_t epoch, uint32_t batch)
{
    const ps_score *score = &t->score;
    ps_train_row row = ps_trainer_row(t, epoch, batch, t->step);
    ps_trainer_times times = ps_trainer_record_times(t, t->progress.times.steps + 1);

    t->last_row_us = ps_clock_us();
    ps_trainer_record_step(t, row.loss);
    t->last_row = row;
    pthread_mutex_lock(&t->mutex);
    t->progress.step = t->step;
    t->progress.epoch = epoch + 1;
    t->progress.loss = row.loss;
    t->progress.accuracy = row.accuracy;
    note_said(t);
    t->progress.samples += score->samples;
    t->progress.iterations++;
    t->progress.times = times;
    pthread_mutex_unlock(&t->mutex);
}

/* Returns whether the feed could read all samples that were asked for. If not, for example after an
 * error of the disk, fails the gate. */
static bool data_is_whole(ps_trainer *t)
{
    ps_status st = ps_feed_status(t->feed);

    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
    }
    return ps_is_ok(&st);
}

bool ps_trainer_is_finite(ps_trainer *t, uint64_t step, double loss, size_t n)
{
    ps_status st;
    bool has_diverged;

    if (isfinite(loss)) {
        return data_is_whole(t);
    }
    st = ps_model_find_nonfinite(t->model, NULL, t->x, n);
    if (ps_is_ok(&st)) {
        st = ps_fail(PS_INTERNAL, "all outputs are finite");
    }
    /* PS_INVALID_ARGUMENT: a sample has a value that the layer cannot take, so the model has not
     * diverged. */
    has_diverged = st.code != PS_INVALID_ARGUMENT;
    st = ps_wrap(st, "rank %u, step %llu: the loss is not finite", t->conf.rank,
                 (unsigned long long)step);
    if (has_diverged) {
        ps_gate_diverge(t->gate, &st);
    } else {
        ps_gate_fail(t->gate, &st);
    }
    return false;
}

/* Returns the indices of the samples of a block. `number` counts, from 0, the blocks that this
 * worker trains in the epoch. */
static const uint32_t *index_of(const ps_trainer *t, uint64_t number)
{
    const ps_assignment *a = t->plan->assignment;
    uint32_t held = a->held_count[t->conf.rank], block = a->held[t->conf.rank][number % held];

    return t->order + ps_plan_order_place(t->plan, number / held, block);
}

void ps_trainer_gather(ps_trainer *t, uint32_t epoch, uint64_t step, uint32_t i, float *x,
                       float *targets)
{
    uint32_t held = t->plan->assignment->held_count[t->conf.rank], size = t->plan->spec->block_size;
    uint64_t batches = t->plan->batches_per_epoch, number = step % batches * held + i;
    int64_t began_ns = ps_trace_begin();

    if (t->ahead == NULL) {
        ps_feed_gather(t->feed, epoch, PS_TRAIN, index_of(t, number), 0, size, x, targets);
        ps_trace_end(PS_TRACE_DATA, began_ns, i, NULL);
        return;
    }
    if (!ps_ahead_take(t->ahead, epoch, index_of(t, number), size, x, targets)) {
        t->next_wanted = number + 1;
    }
    /* Asks for the following blocks, as many as there is room for. Stops at the end of the epoch,
     * because the order of the next epoch is not known yet. */
    while (t->next_wanted < batches * held &&
           ps_ahead_want(t->ahead, epoch, index_of(t, t->next_wanted), size)) {
        t->next_wanted++;
    }
    ps_trace_end(PS_TRACE_DATA, began_ns, i, NULL);
}

void ps_trainer_order(ps_trainer *t, uint32_t epoch)
{
    if (!t->has_order || t->order_epoch != epoch) {
        ps_feed_order(t->feed, epoch, t->order, ps_plan_order_count(t->plan));
        t->has_order = true;
        t->order_epoch = epoch;
    }
}

bool ps_trainer_get_evaluation(ps_trainer *t, uint32_t number, ps_trainer_evaluation *out)
{
    pthread_mutex_lock(&t->mutex);
    *out = t->past[number % PS_EVALUATIONS_KEPT];
    pthread_mutex_unlock(&t->mutex);
    return number > 0 && out->number == number;
}

ps_buf *ps_trainer_get_part(ps_trainer *t, uint32_t *evaluation)
{
    ps_buf *part;

    pthread_mutex_lock(&t->mutex);
    part = t->part == NULL ? NULL : ps_buf_ref(t->part);
    *evaluation = t->progress.evaluations;
    pthread_mutex_unlock(&t->mutex);
    return part;
}

static ps_buf *written(ps_evaluation *e)
{
    ps_buf *part = ps_buf_create(ps_evaluation_bytes(e));

    ps_evaluation_write(e, part->data);
    part->len = part->cap;
    return part;
}

/* Writes the results of an evaluation to the reports, and then to the progress of the rank. Between
 * the two it holds the gate if the results have reached stop_at and all ranks find the same. */
static void report_evaluation(ps_trainer *t, uint32_t epoch, int64_t began_us)
{
    ps_exchange_stats stats = ps_trainer_all_stats(t);
    double values[PS_METRICS_MAX];
    ps_trainer_evaluation *past;
    bool is_reached;
    ps_buf *part;
    ps_eval_row row = {
        .epoch = epoch + 1,
        .step = t->step,
        .loss = ps_evaluation_loss(&t->evaluation),
        .values = values,
        .time_s = (double)(began_us - t->began_us) * 1e-6,
        .bytes_up = stats.bytes_up,
        .bytes_down = stats.bytes_down,
    };

    ps_evaluation_values(&t->evaluation, values);
    ps_trainer_put_eval(t, &row, began_us);
    ps_trainer_said_evaluation(t, &row);
    part = t->plan->spec->split_evaluation ? written(&t->evaluation) : NULL;
    is_reached = part == NULL && ps_stop_is_reached(t->plan, row.loss, values);
    t->evaluated_at = t->clock + 1;
    if (is_reached && ps_stop_is_common(t->plan)) {
        /* held before the progress shows the stop, so that no step begins afterwards */
        (void)ps_gate_hold(t->gate);
    }
    pthread_mutex_lock(&t->mutex);
    t->progress.reached_stop = is_reached;
    ps_buf_unref(t->part);
    t->part = part;
    t->progress.evaluations++;
    t->progress.evaluated_step = row.step;
    t->progress.eval_loss = row.loss;
    memcpy(t->progress.eval_values, values, t->plan->metric_count * sizeof *values);
    past = &t->past[t->progress.evaluations % PS_EVALUATIONS_KEPT];
    *past = (ps_trainer_evaluation){
        .number = t->progress.evaluations, .step = row.step, .loss = row.loss};
    memcpy(past->values, values, t->plan->metric_count * sizeof *values);
    pthread_mutex_unlock(&t->mutex);
    /* so that the evaluation does not count as time of the next step */
    t->last_row_us = ps_clock_us();
    ps_trainer_record_evaluation(t, &row);
}

bool ps_trainer_is_due(const ps_trainer *t, uint64_t before, uint64_t now)
{
    uint32_t every = t->plan->spec->eval_every_steps;

    return every > 0 && now / every > before / every;
}

static bool evaluate(ps_trainer *t, uint32_t epoch)
{
    uint32_t count = ps_dataset_count(t->conf.data, PS_TEST), at = 0;
    int64_t began_us;
    double loss;

    /* The servers must have all contributions of this worker, so that the evaluated weights include
     * them. */
    if (!ps_gate_wait_acks(t->gate) ||
        !ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock)) {
        return false;
    }
    if (ps_gate_is_overtaken(t->gate, t->clock)) {
        ps_log(PS_LOG_INFO, "trainer", "epoch %u of %u: not evaluated, the other workers are ahead",
               epoch + 1, t->plan->spec->epochs);
        return true;
    }
    if (ps_plan_is_foreign(t->plan)) { /* the outside program evaluates its model itself */
        t->evaluated_at = t->clock + 1;
        return true;
    }
    began_us = ps_clock_us();
    t->record.evaluation_ns = ps_trace_begin();
    ps_evaluation_clear(&t->evaluation);
    for (uint32_t n; at < count && ps_gate_is_open(t->gate); at += n) {
        n = count - at < PS_EVALUATION_BATCH ? count - at : PS_EVALUATION_BATCH;
        if (!ps_evaluation_has(t->plan, t->conf.rank, at / PS_EVALUATION_BATCH)) {
            continue;
        }
        ps_feed_gather(t->feed, epoch, PS_TEST, NULL, at, n, t->x, t->targets);
        if (!ps_trainer_pull_rows(t, n)) {
            return false;
        }
        loss =
            ps_evaluation_add(&t->evaluation, t->model, t->weights, t->x, ps_trainer_targets(t), n);
        if (!ps_trainer_is_finite(t, t->step, loss, n)) {
            return false;
        }
    }
    if (at < count || !data_is_whole(t)) {
        return false;
    }
    report_evaluation(t, epoch, began_us);
    return true;
}

/* Evaluates the test set with the weights of t->clock; only this worker's share of it if the job
 * splits evaluations. */
bool ps_trainer_evaluate(ps_trainer *t, uint32_t epoch)
{
    bool open;

    t->is_evaluating = true;
    t->evaluated_epoch = epoch;
    open = evaluate(t, epoch);
    t->is_evaluating = false;
    return open;
}

/* Goes on where the rank was parked: sends the contributions again that the servers' state does not
 * contain, and makes the evaluation that parking interrupted. Returns false if the gate was stopped
 * or has failed. */
static bool go_on(ps_trainer *t)
{
    const trainer_place *place = &t->place;
    bool has_sent = place->from < t->clock;

    for (uint64_t clock = place->from; clock < t->clock; clock++) {
        if (!t->exchange->ops->resend(t->exchange, clock)) {
            return false;
        }
    }
    if (has_sent && !ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock)) {
        return false;
    }
    return !place->owes_evaluation || ps_trainer_evaluate(t, place->epoch);
}

/* Blocks until all contributions are acknowledged, and the requested rows and the weights of
 * t->clock have arrived. Returns false if the gate was stopped or has failed. */
static bool settle(ps_trainer *t)
{
    return ps_gate_wait_acks(t->gate) && ps_gate_wait_rows(t->gate, t->clock) &&
           ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock);
}

typedef struct rank_cut {
    ps_trainer *t;
    ps_snapshot weights;
} rank_cut;

/* Writes the rank to fd, and the weights to c->weights if that has a file (on rank 0 of a mesh).
 * Runs in a copy of the process, or for a small rank in the process itself. */
static ps_status write_rank(void *arg, int fd)
{
    const rank_cut *c = arg;
    ps_status st = ps_trainer_save_kept(c->t, c->t->exchange, ps_snapshot_write, &fd);

    return ps_is_ok(&st) && c->weights.fd >= 0
               ? ps_snapshot_put(c->weights.fd, 0, c->t->weights,
                                 c->t->plan->layout.param_count * sizeof *c->t->weights)
               : st;
}

/* Returns whether the rank consists of short reports, whose files have so many bytes, and little
 * else. Writing such a rank takes less time than copying the process. */
static bool is_small(const ps_trainer *t, uint64_t report_bytes)
{
    enum { SMALL_BYTES = 1 << 20 };

    return ps_trainer_is_lean(t) && report_bytes <= SMALL_BYTES;
}

/* Saves the rank in this process instead of a copy of it. The file is complete on return. */
static ps_snapshot save_here(rank_cut *c)
{
    int64_t before_us = ps_clock_thread_us();
    ps_snapshot state;
    ps_status st = ps_snapshot_blank(0, &state);

    if (ps_is_ok(&st)) {
        st = write_rank(c, state.fd);
    }
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_WARN, "trainer", "the rank is not saved: %s", st.text);
    }
    state.result = st.code;
    state.spent_us = ps_clock_thread_us() - before_us;
    return state;
}

/* Begins to save the rank at t->clock, for the checkpoint that was asked for under the number
 * `name`. Returns false if the gate was stopped or has failed. */
static bool cut(ps_trainer *t, uint64_t name)
{
    rank_cut c = {.t = t, .weights = {.fd = -1, .copy_fd = -1}};
    ps_status st = ps_ok();
    uint64_t report_bytes;
    ps_snapshot state;
    int64_t began_us;

    if (!settle(t)) {
        return false;
    }
    began_us = ps_clock_us();
    if (t->plan->mesh != NULL && t->conf.rank == 0) {
        st = ps_snapshot_blank(t->plan->layout.param_count * sizeof *t->weights, &c.weights);
    }
    if (!ps_is_ok(&st)) { /* only logged, because the coordinator notices the missing file */
        ps_log(PS_LOG_WARN, "trainer", "a checkpoint without weights: %s", st.text);
    }
    st = ps_trainer_keep_program(t);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
        return false;
    }
    report_bytes = ps_trainer_hold_reports(t);
    state = is_small(t, report_bytes) ? save_here(&c) : ps_snapshot_begin(write_rank, &c);
    ps_trainer_release_reports(t);
    ps_trainer_drop_program(t); /* it was written, or the copy of the process has its own */
    state.stood_us = ps_clock_us() - began_us;
    ps_log(PS_LOG_INFO, "trainer",
           "checkpoint at step %llu: stood still for %.1f ms, computed for %.1f ms",
           (unsigned long long)t->step, (double)state.stood_us * 1e-3,
           (double)state.spent_us * 1e-3);
    t->conf.saved(t->conf.arg, name, state, c.weights);
    return true;
}

/* Fails the gate if code that the job brought along has failed. */
static void fail_with_code(ps_trainer *t)
{
    ps_status st = ps_plan_code_failure(t->plan);

    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
    }
}

bool ps_trainer_cut_if_due(ps_trainer *t)
{
    uint64_t name = t->conf.saved != NULL ? ps_gate_take_cut(t->gate, t->clock) : 0;

    return name == 0 || cut(t, name);
}

bool ps_trainer_begin_clock(ps_trainer *t, bool *is_end)
{
    if (t->conf.beginning != NULL) {
        t->conf.beginning(t->conf.arg);
    }
    fail_with_code(t);
    if (!ps_trainer_cut_if_due(t) || !ps_gate_begin_clock(t->gate, t->clock, is_end)) {
        return false;
    }
    if (!*is_end) {
        /* The step before was not the last one. put_last_row completes the row of the last one. */
        ps_trainer_put_held_line(t);
    }
    return true;
}

bool ps_trainer_evaluate_end(ps_trainer *t, uint32_t epoch)
{
    return t->evaluated_at == t->clock + 1 || ps_trainer_evaluate(t, epoch);
}

void ps_trainer_stop_at(ps_trainer *t, uint64_t clock)
{
    t->stop_at = clock;
}

bool ps_trainer_is_at_stop(const ps_trainer *t)
{
    return t->clock >= t->stop_at;
}

static bool train(ps_trainer *t)
{
    return go_on(t) && (t->plan->update->local != NULL ? ps_trainer_train_rounds(t)
                                                       : ps_trainer_train_steps(t));
}

/* Writes the row of the last step, with all traffic and waits of the job. */
static void put_last_row(ps_trainer *t)
{
    char whom[8];
    ps_exchange_stats stats = ps_trainer_all_stats(t);

    if (t->last_row.step > 0) {
        t->last_row.bytes_up = stats.bytes_up;
        t->last_row.bytes_down = stats.bytes_down;
        t->last_row.wait_s = ps_gate_waited_s(t->gate, whom, sizeof whom) + t->earlier.wait_s;
        ps_trainer_put_held_line(t);
    }
}

/* Ends the reports. If the rank may be saved where it has ended, first keeps them as they are,
 * because the next attempt ends them again. */
static void end_reports(ps_trainer *t, bool is_trained)
{
    put_last_row(t);
    ps_trainer_record_end(t);
    t->has_ended = is_trained;
    if (is_trained && t->conf.saved != NULL && ps_plan_carries(t->plan)) {
        ps_trainer_keep_reports(t);
    }
    ps_trainer_end_train(t);
}

static void *run(void *arg)
{
    ps_trainer *t = arg;
    ps_status st = ps_trainer_open_reports(t), end;

    t->last_row_us = ps_clock_us();
    t->began_us = t->last_row_us - (int64_t)(t->earlier.seconds * 1e6);
    if (ps_is_ok(&st)) {
        bool is_trained;

        ps_trainer_restore_reports(t);
        ps_trainer_record_begin(t);
        is_trained = train(t) && (!ps_trainer_is_at_stop(t) || settle(t));
        if (is_trained) {
            ps_exchange_drain(t->exchange);
            fail_with_code(t);
            is_trained = ps_gate_is_open(t->gate);
        }
        if (is_trained && t->conf.loop != NULL && !ps_trainer_is_at_stop(t)) {
            t->conf.loop->end(t->conf.loop->arg, t->clock, t->weights);
        }
        end_reports(t, is_trained);
        if (is_trained) {
            if (t->conf.rank == 0 && !ps_trainer_is_at_stop(t)) {
                st = ps_trainer_write_patiently(t, ps_trainer_write_model);
            }
            if (ps_is_ok(&st)) {
                st = ps_trainer_write_patiently(t, ps_trainer_flush);
            }
        } else {
            st = ps_gate_failure(t->gate);
            t->has_diverged = ps_gate_has_diverged(t->gate);
            if (ps_is_ok(&st)) {
                st = ps_fail(PS_CANCELLED, "stopped at step %llu", (unsigned long long)t->step);
            }
        }
    }
    end = ps_trainer_close_reports(t);
    t->result = ps_is_ok(&st) ? end : st;
    t->done(t->done_arg);
    return NULL;
}

ps_status ps_trainer_start(ps_trainer *t, ps_exchange *exchange, void (*done)(void *arg), void *arg)
{
    int err;

    t->exchange = exchange;
    t->gate = ps_exchange_gate(exchange);
    ps_gate_begin_at(t->gate, t->place.from - t->place.pulls_weights);
    if (t->place.from < t->clock || t->place.pulls_weights) {
        ps_gate_has_begun(t->gate, t->clock);
    }
    if (t->place.is_held) {
        (void)ps_gate_hold(t->gate);
    }
    t->done = done;
    t->done_arg = arg;
    err = pthread_create(&t->thread, NULL, run, t);
    if (err != 0) {
        t->result = ps_fail_errno(err, "training thread");
        return t->result;
    }
    t->started = true;
    return ps_ok();
}

bool ps_trainer_has_ended(const ps_trainer *t)
{
    return t->has_ended && ps_is_ok(&t->result);
}

bool ps_trainer_has_diverged(const ps_trainer *t)
{
    return t->has_diverged;
}

ps_status ps_trainer_result(ps_trainer *t)
{
    return t->result;
}
