/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_steps.c - training without local steps: every step is a clock. Forward waits for the
 * weights of each layer; backward sends gradients as they become final. */
#include "common/train/trainer_impl.h"

#include "common/base/draw.h"
#include "common/base/nonfinite.h"

#include <math.h>
#include <string.h>

static void need(void *arg, uint32_t first_variable, uint32_t count)
{
    ps_trainer *t = arg;

    /* If the gate was stopped, the rest of the block is computed in vain; train_block then returns
     * false. */
    (void)ps_gate_wait_weights(t->gate, first_variable, count, t->clock);
}

/* Returns which part of the step's whole gradient a contribution stands for. With a contribution
 * for each block it is 1, because blocks are averaged. With one for each worker it is the worker's
 * part, because workers are summed. In rounds it is the share of the round. */
static double share_of(const ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    double block;

    if (plan->update->local != NULL) {
        return t->rounds.now.share;
    }
    block = (double)plan->update->block_scale(&plan->update_facts) * plan->spec->block_size;

    return plan->update->per_block ? block : block * plan->assignment->held_count[t->conf.rank];
}

/* Replaces the gradients of touched rows by increments of the optimizer. */
static void turn_rows(ps_trainer *t, uint32_t v, const uint32_t *ids, size_t count, ps_moment at,
                      float *g, float *state)
{
    const ps_plan *plan = t->plan;
    const ps_variable *var = &plan->layout.variables[v];
    size_t width = var->shape.dim[1];

    for (size_t i = 0; i < count; i++) {
        ps_rows row = {.id = &ids[i], .count = 1, .width = width};
        float *of_row = g + ids[i] * width;

        ps_descent_increment_rows(&plan->descent, at, &row, of_row, t->weights + var->at, state,
                                  of_row, var->size);
    }
}

/* Replaces the gradients of these variables by increments of the job's optimizer. Called if workers
 * run the optimizer and not servers. Leaves out the state of layers, because layers compute
 * decrements of it themselves. */
void ps_trainer_turn_to_increments(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    const ps_plan *plan = t->plan;
    ps_moment at = {.t = t->clock + 1, .step = t->clock, .share = share_of(t)};

    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        float *g = ps_trainer_gradients(t) + var->at;
        float *state = t->optim_state == NULL ? NULL /* (slots, size) for this variable */
                                              : t->optim_state + var->at * plan->optim->slots;

        size_t rows;
        const uint32_t *ids = ps_trainer_touched(t, v, &rows);

        if (ids != NULL) {
            turn_rows(t, v, ids, rows, at, g, state);
        } else if (!var->is_state) {
            ps_descent_increment(&plan->descent, at, g, t->weights + var->at, state, g, var->size);
        }
    }
}

/* Checks that the gradients of these variables are finite. Leaves out sparse variables and those
 * that are sent as f32: the server finds values that are not finite in them, while other codecs
 * would hide them. If one is not finite, fails the gate and returns false. */
static bool are_finite(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        const ps_variable *var = &t->plan->layout.variables[v];
        const float *g = ps_trainer_gradients(t) + var->at;
        size_t i;
        ps_status st;

        if (var->is_sparse || strcmp(t->plan->up[v].codec->name, "f32") == 0) {
            continue;
        }
        i = ps_first_nonfinite(g, var->size);
        if (i < var->size) {
            st = ps_fail(PS_INTERNAL,
                         "rank %u, step %llu: value %zu of the gradient of %s is %g, which is not "
                         "finite",
                         t->conf.rank, (unsigned long long)t->step + 1, i, var->name, (double)g[i]);
            ps_gate_diverge(t->gate, &st);
            return false;
        }
    }
    return true;
}

static void ready(void *arg, uint32_t first_variable, uint32_t count)
{
    ps_trainer *t = arg;

    /* Unless t->sends is set, further blocks belong to the contribution. If the loss is not finite,
     * the step will fail. */
    if (!t->sends || !isfinite(t->score.loss_sum)) {
        return;
    }
    if (!are_finite(t, first_variable, count)) {
        return;
    }
    (void)ps_holdup_wait(&t->holdup, t->plan, t->conf.rank, t->step, t->gate);
    ps_trainer_clip(t, ps_trainer_gradients(t), first_variable, count, share_of(t));
    if (!t->plan->optim_on_server) {
        ps_trainer_turn_to_increments(t, first_variable, count);
    }
    ps_trainer_record_sent(t);
    ps_trainer_say(t);
    ps_trainer_push_rows(t, first_variable, count);
    ps_exchange_ready(t->exchange, first_variable, count);
}

/* Waits for the weights and lets a program compute this worker's only block with them. Returns
 * false if the gate was stopped or has failed. */
static bool foreign_block(ps_trainer *t, ps_model_ready_fn *as_it_comes)
{
    const ps_plan *plan = t->plan;
    float scale = plan->update->block_scale(&plan->update_facts) * (float)plan->spec->block_size;

    if (!ps_gate_wait_weights(t->gate, 0, plan->layout.variable_count, t->clock) ||
        !ps_trainer_foreign_block(t, t->weights, scale, ps_trainer_gradients(t), as_it_comes)) {
        return false;
    }
    if (as_it_comes == NULL) {
        ps_trainer_clip_all(t, ps_trainer_gradients(t), share_of(t), ready);
    }
    return ps_gate_is_open(t->gate);
}

/* Computes forward and backward of the i-th block that the worker holds. Returns false if the gate
 * was stopped or has failed. */
static bool train_block(ps_trainer *t, uint32_t epoch, uint32_t i)
{
    const ps_plan *plan = t->plan;
    const ps_assignment *a = plan->assignment;
    uint32_t held = a->held_count[t->conf.rank];
    uint32_t block = a->held[t->conf.rank][i];
    uint32_t size = plan->spec->block_size;
    bool is_ahead = ps_trainer_is_ahead(t);
    bool by_all = plan->clip->unit == PS_CLIP_ALL;
    ps_model_hooks hooks = {
        .need = need, .outputs = ps_trainer_see_outputs, .ready = by_all ? NULL : ready, .arg = t};
    bool per_block = plan->update->per_block, last = i + 1 == held;

    if (!is_ahead && t->conf.loop == NULL) {
        ps_trainer_gather(t, epoch, t->clock, i, t->x, t->targets);
    }
    t->sends = per_block || last;
    t->said.is_last_block = last;
    if ((per_block || i == 0) &&
        !ps_exchange_begin(t->exchange, t->clock, per_block ? block : 0, per_block ? last : true)) {
        return false;
    }
    if (t->conf.loop != NULL) {
        return foreign_block(t, by_all ? NULL : ready);
    }
    if (!(is_ahead ? ps_trainer_take_ahead(t, block, size) : ps_trainer_pull_rows(t, size))) {
        return false;
    }
    ps_trainer_go_ahead(t, epoch, i);
    ps_model_set_draws(t->model,
                       ps_draw_key(plan->spec->seed, PS_DRAW_DROPOUT, t->clock, block, 0));
    ps_model_train(t->model, t->weights, t->x, ps_trainer_targets(t), size,
                   plan->update->block_scale(&plan->update_facts), !per_block && i > 0,
                   ps_trainer_gradients(t), &hooks, &t->score);
    if (by_all && t->sends) {
        ps_trainer_clip_all(t, ps_trainer_gradients(t), share_of(t), ready);
    }
    return ps_gate_is_open(t->gate) &&
           ps_trainer_is_finite(t, t->step + 1, t->score.loss_sum, size);
}

/* Passes a step that other holders of this worker's blocks have completed: contributes nothing and
 * goes on to the next clock. Saves the rank first if a checkpoint at this clock was asked for. */
static bool skip_step(ps_trainer *t, uint32_t epoch)
{
    bool open = ps_trainer_cut_if_due(t) && ps_exchange_skip(t->exchange, t->clock);

    t->step = ++t->clock;
    pthread_mutex_lock(&t->mutex);
    t->progress.step = t->step;
    t->progress.epoch = epoch + 1;
    pthread_mutex_unlock(&t->mutex);
    return open;
}

/* Under a policy that leaves workers behind: jumps to the clock of the newest weights that arrived.
 * A gradient for a closed clock would be dropped. */
static void catch_up(ps_trainer *t)
{
    uint64_t to = ps_gate_reached(t->gate, t->clock);

    to = to < t->plan->total_clocks ? to : t->plan->total_clocks;
    if (to > t->clock) {
        ps_gate_jump(t->gate, t->clock, to);
        t->step = t->clock = to;
        pthread_mutex_lock(&t->mutex);
        t->progress.step = t->step;
        pthread_mutex_unlock(&t->mutex);
    }
}

/* Returns the clock at which the steps of the epoch end. */
static uint64_t end_of(const ps_trainer *t, uint32_t epoch)
{
    uint64_t end = (uint64_t)t->plan->batches_per_epoch * (epoch + 1);

    return end < t->plan->total_steps ? end : t->plan->total_steps;
}

/* Takes the next step of the epoch. Skips it if other workers have completed it. Takes none if the
 * epoch is over or the job ends here (*is_end). Returns false if the gate was stopped or has
 * failed. */
static bool step(ps_trainer *t, uint32_t epoch, bool *is_end)
{
    uint32_t per_epoch = t->plan->batches_per_epoch, batch;
    uint32_t held = t->plan->assignment->held_count[t->conf.rank];

    if (ps_exchange_may_be_overtaken(t->exchange)) {
        if (!ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock)) {
            return false;
        }
        if (t->plan->policy->leaves_behind) {
            catch_up(t);
        } else if (ps_gate_is_overtaken(t->gate, t->clock)) {
            return skip_step(t, epoch);
        }
    }
    if (t->clock >= end_of(t, epoch)) {
        return true;
    }
    if (!ps_trainer_begin_clock(t, is_end) || *is_end) {
        return ps_gate_is_open(t->gate);
    }
    batch = (uint32_t)(t->clock % per_epoch);
    t->score = (ps_score){0};
    for (uint32_t i = 0; i < held; i++) {
        if (!train_block(t, epoch, i)) {
            return false;
        }
    }
    t->step = ++t->clock;
    ps_trainer_report_step(t, epoch, batch);
    ps_trainer_record_round(t);
    return true;
}

/* Trains the remaining steps of an epoch. Evaluates within it as often as the job asks for, and at
 * its end, unless t->clock has jumped beyond the end. Sets *is_end if the job ends within it.
 * Returns false if the gate was stopped or has failed. */
static bool train_epoch(ps_trainer *t, uint32_t epoch, bool *is_end)
{
    uint64_t end = end_of(t, epoch);

    if (t->conf.loop == NULL) {
        ps_trainer_order(t, epoch);
    }
    while (t->clock < end) {
        uint64_t before = t->step;

        if (ps_trainer_is_at_stop(t)) {
            return true;
        }
        if (!step(t, epoch, is_end)) {
            return false;
        }
        if (*is_end) {
            return ps_trainer_drop_ahead(t) && ps_trainer_evaluate_end(t, epoch);
        }
        if (t->clock < end && ps_trainer_is_due(t, before, t->step) &&
            !ps_trainer_evaluate(t, epoch)) {
            return false;
        }
    }
    return t->clock > end || ps_trainer_evaluate(t, epoch);
}

bool ps_trainer_train_steps(ps_trainer *t)
{
    uint32_t epochs = t->plan->spec->epochs;
    bool is_end = false;

    if (!ps_trainer_begin_said(t)) {
        return false;
    }
    for (uint32_t epoch = 0; epoch < epochs && t->clock < t->plan->total_steps && !is_end;
         epoch++) {
        if (t->clock >= end_of(t, epoch)) {
            continue; /* this worker takes no step: the others have completed the epoch */
        }
        if (!train_epoch(t, epoch, &is_end)) {
            return false;
        }
        if (ps_trainer_is_at_stop(t)) {
            return true;
        }
    }
    ps_trainer_log_tables(t);
    return ps_gate_wait_acks(t->gate) && ps_gate_wait_rows(t->gate, t->clock);
}
