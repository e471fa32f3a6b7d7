/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - see trainer.h. */
#include "common/train/trainer_impl.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVAL_BATCH = 250 };

/* The job chooses all these sizes. */
static ps_status take_memory(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    size_t n = plan->layout.param_count, features = plan->facts.features;
    bool has_state = !plan->optim_on_server && plan->optim->slots > 0;

    t->grad = ps_buf_try_create(n * sizeof(float));
    t->x = calloc(t->batch * features, sizeof(float));
    t->targets = calloc(t->batch * plan->facts.target_width, sizeof *t->targets);
    t->order = calloc(plan->train_count, sizeof *t->order);
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

ps_status ps_trainer_create(const ps_trainer_conf *conf, ps_trainer **out)
{
    const ps_plan *plan = conf->plan;
    ps_trainer *t = ps_xcalloc(1, sizeof *t);
    ps_status st;

    t->conf = *conf;
    t->plan = plan;
    pthread_mutex_init(&t->mutex, NULL);
    t->batch = plan->spec->block_size > EVAL_BATCH ? plan->spec->block_size : EVAL_BATCH;
    st = ps_plan_model(plan, t->batch, &t->model);
    if (ps_is_ok(&st)) {
        st = take_memory(t);
    }
    if (!ps_is_ok(&st)) {
        ps_trainer_destroy(t);
        return st;
    }
    t->weights = conf->weights;
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
    ps_model_destroy(t->model);
    ps_buf_unref(t->grad);
    free(t->optim_state);
    free(t->x);
    free(t->targets);
    free(t->order);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

ps_buf *ps_trainer_grad(ps_trainer *t)
{
    return t->grad;
}

ps_trainer_progress ps_trainer_get_progress(ps_trainer *t)
{
    ps_trainer_progress p;

    pthread_mutex_lock(&t->mutex);
    p = t->progress;
    pthread_mutex_unlock(&t->mutex);
    return p;
}

static float *grad_of(ps_trainer *t)
{
    return (float *)(void *)t->grad->data;
}

static void need(void *arg, uint32_t first_variable, uint32_t count)
{
    ps_trainer *t = arg;

    /* When the gate is closed the rest of the block is computed for nothing. */
    (void)ps_gate_wait_weights(t->gate, first_variable, count, t->clock);
}

/* Replaces gradients by increments where the optimizer is this worker's; in place of a
 * gradient of state there is one already. */
static void turn_to_increments(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    const ps_plan *plan = t->plan;

    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        float *g = grad_of(t) + var->at;

        if (var->is_state) {
            continue;
        }
        /* The state of a variable is (slots, size) of its own. */
        plan->optim->increment(
            &plan->optim_params, t->clock + 1, g, t->weights + var->at,
            t->optim_state == NULL ? NULL : t->optim_state + var->at * plan->optim->slots, g,
            var->size);
    }
}

static void ready(void *arg, uint32_t first_variable, uint32_t count)
{
    ps_trainer *t = arg;

    if (!t->sends) {
        return;
    }
    if (!t->plan->optim_on_server) {
        turn_to_increments(t, first_variable, count);
    }
    ps_exchange_ready(t->exchange, first_variable, count);
}

/* What the samples gathered last are to be. */
static ps_targets targets_of(const ps_trainer *t)
{
    const ps_data_facts *facts = &t->plan->facts;

    return facts->classes > 0 ? ps_targets_classes(t->targets)
                              : ps_targets_values(t->targets, facts->target_width);
}

/* Forward and backward of one block. False: stopped or failed. */
static bool train_block(ps_trainer *t, uint32_t batch, uint32_t i, ps_score *score)
{
    const ps_plan *plan = t->plan;
    const ps_assignment *a = plan->assignment;
    uint32_t held = a->held_count[t->conf.rank];
    uint32_t block = a->held[t->conf.rank][i];
    uint32_t size = plan->spec->block_size;
    const uint32_t *index =
        t->order + ((size_t)batch * a->block_count + block) * size; /* t B + k S */
    ps_model_hooks hooks = {.need = need, .ready = ready, .arg = t};
    bool per_block = plan->update->per_block, last = i + 1 == held;

    ps_dataset_gather(t->conf.data, PS_TRAIN, index, 0, size, t->x, t->targets);
    t->sends = per_block || last;
    if ((per_block || i == 0) &&
        !ps_exchange_begin(t->exchange, t->clock, per_block ? block : 0, per_block ? last : true)) {
        return false;
    }
    ps_model_set_draws(t->model,
                       ps_draw_key(plan->spec->seed, PS_DRAW_DROPOUT, t->clock, block, 0));
    ps_model_train(t->model, t->weights, t->x, targets_of(t), size,
                   plan->update->block_scale(&plan->update_facts), !per_block && i > 0, grad_of(t),
                   &hooks, score);
    return ps_gate_is_open(t->gate);
}

static void report_step(ps_trainer *t, uint32_t epoch, uint32_t batch, const ps_score *score)
{
    char whom[8];
    ps_exchange_stats stats = ps_exchange_get_stats(t->exchange);
    int64_t now_us = ps_clock_us();
    ps_train_row row = {
        .time_s = (double)(now_us - t->began_us) * 1e-6,
        .epoch = epoch + 1,
        .batch = (uint64_t)batch + 1,
        .step = t->clock,
        .loss = score->loss_sum / (double)score->samples,
        .accuracy = (double)score->correct / (double)score->samples,
        .samples_per_s = (double)score->samples * 1e6 / (double)(now_us - t->last_row_us + 1),
        .bytes_up = stats.bytes_up,
        .bytes_down = stats.bytes_down,
        .wait_s = ps_gate_waited_s(t->gate, whom, sizeof whom),
    };

    t->last_row_us = now_us;
    ps_trainer_put_train(t, &row);
    pthread_mutex_lock(&t->mutex);
    t->progress.step = t->clock;
    t->progress.epoch = epoch + 1;
    t->progress.loss = row.loss;
    t->progress.accuracy = row.accuracy;
    t->progress.samples += score->samples;
    pthread_mutex_unlock(&t->mutex);
}

/* The other holders of this worker's blocks have finished the step without it:
 * it has nothing to add and catches up. */
static bool skip_step(ps_trainer *t, uint32_t epoch)
{
    bool open = ps_exchange_skip(t->exchange, t->clock);

    t->clock++;
    pthread_mutex_lock(&t->mutex);
    t->progress.step = t->clock;
    t->progress.epoch = epoch + 1;
    pthread_mutex_unlock(&t->mutex);
    return open;
}

static bool step(ps_trainer *t, uint32_t epoch, uint32_t batch)
{
    uint32_t held = t->plan->assignment->held_count[t->conf.rank];
    ps_score score = {0};

    if (ps_exchange_may_be_overtaken(t->exchange)) {
        if (!ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock)) {
            return false;
        }
        if (ps_gate_is_overtaken(t->gate, t->clock)) {
            return skip_step(t, epoch);
        }
    }
    for (uint32_t i = 0; i < held; i++) {
        if (!train_block(t, batch, i, &score)) {
            return false;
        }
    }
    t->clock++;
    if (!isfinite(score.loss_sum)) {
        ps_status st =
            ps_fail(PS_INTERNAL, "step %llu: the loss is not finite", (unsigned long long)t->clock);

        ps_gate_fail(t->gate, &st);
        return false;
    }
    report_step(t, epoch, batch, &score);
    return true;
}

/* The whole test set on the weights of the clock that comes next. */
static bool evaluate(ps_trainer *t, uint32_t epoch)
{
    uint32_t count = ps_dataset_count(t->conf.data, PS_TEST);
    ps_score score = {0};
    ps_eval_row row;

    if (!ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock)) {
        return false;
    }
    if (ps_gate_is_overtaken(t->gate, t->clock)) {
        ps_log(PS_LOG_INFO, "trainer", "epoch %u of %u: not evaluated, the others are further",
               epoch + 1, t->plan->spec->epochs);
        return true;
    }
    for (uint32_t at = 0; at < count && ps_gate_is_open(t->gate); at += EVAL_BATCH) {
        uint32_t n = count - at < EVAL_BATCH ? count - at : EVAL_BATCH;

        ps_dataset_gather(t->conf.data, PS_TEST, NULL, at, n, t->x, t->targets);
        ps_model_eval(t->model, t->weights, t->x, targets_of(t), n, &score);
    }
    if (score.samples < count) {
        return false;
    }
    row = (ps_eval_row){
        .epoch = epoch + 1,
        .step = t->clock,
        .loss = score.loss_sum / (double)score.samples,
        .accuracy = (double)score.correct / (double)score.samples,
    };
    ps_trainer_put_eval(t, &row);
    ps_log(PS_LOG_INFO, "trainer", "epoch %u of %u: test loss %.4f, accuracy %.4f", row.epoch,
           t->plan->spec->epochs, row.loss, row.accuracy);
    pthread_mutex_lock(&t->mutex);
    t->progress.evaluations++;
    t->progress.eval_loss = row.loss;
    t->progress.eval_accuracy = row.accuracy;
    pthread_mutex_unlock(&t->mutex);
    t->last_row_us = ps_clock_us(); /* the next step has not lasted since before */
    return true;
}

static bool train(ps_trainer *t)
{
    for (uint32_t epoch = 0; epoch < t->plan->spec->epochs; epoch++) {
        ps_epoch_order(t->plan->spec->seed, epoch, t->order, t->plan->train_count);
        for (uint32_t batch = 0; batch < t->plan->batches_per_epoch; batch++) {
            if (!step(t, epoch, batch)) {
                return false;
            }
        }
        if (!evaluate(t, epoch)) {
            return false;
        }
    }
    return ps_gate_wait_acks(t->gate);
}

static void *run(void *arg)
{
    ps_trainer *t = arg;
    ps_status st = ps_trainer_open_reports(t), end;

    t->began_us = t->last_row_us = ps_clock_us();
    if (ps_is_ok(&st)) {
        if (train(t)) {
            st = t->conf.rank == 0 ? ps_trainer_write_model(t) : ps_ok();
        } else {
            st = ps_gate_failure(t->gate);
            if (ps_is_ok(&st)) {
                st = ps_fail(PS_CANCELLED, "stopped at step %llu", (unsigned long long)t->clock);
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

ps_status ps_trainer_result(ps_trainer *t)
{
    return t->result;
}
