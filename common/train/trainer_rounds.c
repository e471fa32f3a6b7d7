/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_rounds.c - training in rounds of local steps on a replica; see common/update/local.h.
 *
 * Without overlap, a round reads each layer's weights when they arrive, and sends each layer's
 * contribution when the round's last backward pass has completed it. With overlap, the exchange's
 * thread sends the contribution of the round before and writes the shared weights, while this
 * thread trains the replica with gradients in memory of its own. The two threads meet once a round,
 * in exchange_round. */
#include "common/train/round_rows.h"
#include "common/train/trainer_impl.h"

#include "common/base/draw.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

ps_status ps_trainer_init_rounds(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    const ps_local *local = plan->update->local;
    trainer_rounds *r = &t->rounds;
    size_t n = plan->layout.param_count;
    unsigned rule_slots = plan->local_optim != NULL ? plan->local_optim->slots : 0;

    if (local == NULL) {
        return ps_ok();
    }
    r->local = local;
    r->is_in = ps_xcalloc(plan->spec->workers, sizeof *r->is_in);
    r->replica = calloc(n, sizeof *r->replica);
    r->grad = local->is_overlapped ? calloc(n, sizeof *r->grad) : NULL;
    r->slots = local->slots > 0 ? calloc(n * local->slots, sizeof *r->slots) : NULL;
    r->rule_state = rule_slots > 0 ? calloc(n * rule_slots, sizeof *r->rule_state) : NULL;
    r->touched = ps_xcalloc(plan->layout.variable_count, sizeof *r->touched);
    for (uint32_t v = 0; local->tracks_rows && v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];

        if (var->is_sparse) { /* (rows, width) */
            r->touched[v] = ps_xcalloc(var->shape.dim[0], sizeof **r->touched);
        }
    }
    if (r->replica == NULL || (local->is_overlapped && r->grad == NULL) ||
        (local->slots > 0 && r->slots == NULL) || (rule_slots > 0 && r->rule_state == NULL)) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "no memory for a replica of %zu parameters and the state of update %s", n,
                       plan->update->name);
    }
    return ps_ok();
}

void ps_trainer_fini_rounds(ps_trainer *t)
{
    free(t->rounds.is_in);
    free(t->rounds.replica);
    free(t->rounds.grad);
    free(t->rounds.slots);
    free(t->rounds.rule_state);
    for (uint32_t v = 0; t->rounds.touched != NULL && v < t->plan->layout.variable_count; v++) {
        free(t->rounds.touched[v]);
    }
    free(t->rounds.touched);
}

size_t ps_trainer_rounds_memory(const ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    const trainer_rounds *r = &t->rounds;
    unsigned rule_slots = plan->local_optim != NULL ? plan->local_optim->slots : 0;
    size_t blocks = (r->replica != NULL ? 1u : 0u) + (r->grad != NULL ? 1u : 0u);

    blocks += r->slots != NULL ? r->local->slots : 0;
    blocks += r->rule_state != NULL ? rule_slots : 0;
    return blocks * plan->layout.param_count * sizeof(float) +
           (r->local != NULL ? ps_round_rows_memory(plan, rule_slots) : 0);
}

static float *gradients_of(ps_trainer *t)
{
    return t->rounds.grad != NULL ? t->rounds.grad : ps_trainer_gradients(t);
}

static ps_stretch stretch_of(ps_trainer *t, uint32_t v)
{
    const ps_variable *var = &t->plan->layout.variables[v];
    trainer_rounds *r = &t->rounds;

    return (ps_stretch){
        .n = var->size,
        .is_state = var->is_state,
        .w = t->weights + var->at,
        .x = r->replica + var->at,
        .g = gradients_of(t) + var->at,
        .p = ps_trainer_gradients(t) + var->at,
        .slots = r->slots == NULL ? NULL : r->slots + var->at * r->local->slots,
        .row = r->touched[v] != NULL ? var->shape.dim[1] : 0,
        .touched = r->touched[v],
    };
}

/* Returns whether the variable is a table that grows. The model has only the rows of one batch of
 * it; rows are exchanged by id at the end of a round. In rounds, embeddings with a fixed vocabulary
 * are exchanged like dense variables. */
static bool grows(const ps_trainer *t, uint32_t v)
{
    return t->plan->table_of[v] != PS_NO_TABLE;
}

/* ---- One local step ---- */

static void adopt(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        ps_stretch s = stretch_of(t, v);

        if (!grows(t, v)) {
            ps_local_adopt(t->rounds.local, &t->rounds.now, &s);
        }
    }
}

/* Blocks until the weights have arrived that these variables adopt. If the rank may be parked,
 * waits for the weights of all variables: a rank that is parked half-way would adopt some variables
 * twice. Returns false if the gate was stopped or has failed. */
static bool wait_to_adopt(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    return ps_plan_can_carry(t->plan)
               ? ps_gate_wait_weights(t->gate, 0, t->plan->layout.variable_count, t->clock)
               : ps_gate_wait_weights(t->gate, first_variable, count, t->clock);
}

static void need(void *arg, uint32_t first_variable, uint32_t count)
{
    ps_trainer *t = arg;

    if (t->rounds.is_adopting && wait_to_adopt(t, first_variable, count)) {
        adopt(t, first_variable, count);
    }
}

/* Steps the touched rows of a sparse variable. Other rows stay as they are, because they have no
 * gradient and no rule changes a row without one. */
static void step_rows(ps_trainer *t, uint32_t v, const ps_stretch *s, ps_moment at, float *state)
{
    size_t count, width = t->plan->layout.variables[v].shape.dim[1];
    const uint32_t *ids = ps_model_rows(t->model, v, &count);

    for (size_t i = 0; i < count; i++) {
        ps_rows row = {.id = &ids[i], .count = 1, .width = width};
        float *g = s->g + ids[i] * width;

        /* the row's optimizer state began with this round, so its steps are counted within the
         * round */
        if (grows(t, v)) {
            at.t = ps_trainer_row_steps(t, ids[i]) + 1;
        }
        ps_descent_step_rows(&t->plan->local_descent, at, &row, g, g, state, s->x, s->n);
        if (s->touched != NULL) {
            s->touched[ids[i]] = t->clock + 1;
        }
    }
}

static void step_variable(ps_trainer *t, uint32_t v)
{
    const ps_plan *plan = t->plan;
    trainer_rounds *r = &t->rounds;
    ps_stretch s = stretch_of(t, v);
    float *state = NULL;
    ps_moment at;

    if (r->local->sends_gradients) {
        return;
    }
    if (s.is_state) {
        for (size_t i = 0; i < s.n; i++) {
            s.x[i] -= s.g[i];
        }
        return;
    }
    if (r->local->adjust != NULL) {
        r->local->adjust(&r->now, &s);
    }
    if (r->rule_state != NULL) {
        state = r->rule_state + plan->layout.variables[v].at * plan->local_optim->slots;
    }
    at = (ps_moment){.t = r->own_steps + 1, .step = t->step, .share = 1.0};
    if (plan->layout.variables[v].is_sparse && r->local->adjust == NULL) {
        step_rows(t, v, &s, at, state);
    } else {
        ps_descent_step(&plan->local_descent, at, s.g, s.g, s.x, state, s.x, s.n);
    }
}

/* Counts those of these variables that are tables that grow as stepped. Returns whether all tables
 * of the job have been stepped now; then begins to count anew. */
static bool completes_tables(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    trainer_rounds *r = &t->rounds;
    uint32_t before = r->tables_stepped;

    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        r->tables_stepped += grows(t, v);
    }
    if (r->tables_stepped == before || r->tables_stepped < t->plan->table_count) {
        return false;
    }
    r->tables_stepped = 0;
    return true;
}

static void ready(void *arg, uint32_t first_variable, uint32_t count)
{
    ps_trainer *t = arg;
    trainer_rounds *r = &t->rounds;

    if (!isfinite(t->score.loss_sum)) { /* the step will fail because of its loss */
        return;
    }
    (void)ps_holdup_wait(&t->holdup, t->plan, t->conf.rank, t->step, t->gate);
    if (r->completes_step) {
        ps_trainer_clip(t, gradients_of(t), first_variable, count, 1.0);
    }
    for (uint32_t v = first_variable; r->completes_step && v < first_variable + count; v++) {
        step_variable(t, v);
        if (r->completes_round && !r->local->is_overlapped && !grows(t, v)) {
            ps_stretch s = stretch_of(t, v);

            r->local->contribute(&r->now, &s);
        }
    }
    if (r->completes_step && completes_tables(t, first_variable, count)) {
        ps_trainer_keep_round_rows(t, r->rule_state);
        if (r->completes_round && !r->local->is_overlapped) {
            ps_trainer_push_round_rows(t);
        }
    }
    if (r->completes_round && !r->local->is_overlapped) {
        ps_trainer_record_sent(t);
        ps_exchange_ready(t->exchange, first_variable, count);
    }
}

/* Counts a step that ended while the exchange of the round before was not over. Counts nothing if
 * the trainer fetches weights itself, because then nothing is exchanged during a step. */
static void count_behind(ps_trainer *t)
{
    if (t->rounds.local->is_overlapped && t->gate->hooks.fetch == NULL &&
        !ps_gate_has_weights(t->gate, t->clock)) {
        pthread_mutex_lock(&t->mutex);
        t->progress.behind++;
        pthread_mutex_unlock(&t->mutex);
    }
}

/* Takes one local step on the mean gradient of all blocks that the worker holds. is_first: the
 * forward pass of its first block adopts the shared weights as they arrive. is_last: the step
 * completes the round. */
static bool local_step(ps_trainer *t, bool is_first, bool is_last)
{
    const ps_plan *plan = t->plan;
    const ps_assignment *a = plan->assignment;
    trainer_rounds *r = &t->rounds;
    uint32_t epoch = (uint32_t)(t->step / plan->batches_per_epoch);
    uint32_t batch = (uint32_t)(t->step % plan->batches_per_epoch);
    uint32_t held = a->held_count[t->conf.rank], size = plan->spec->block_size;
    float scale = (float)(1.0 / ((double)size * (double)held));
    bool by_all = plan->clip->unit == PS_CLIP_ALL;
    ps_model_hooks hooks = {
        .need = need, .outputs = ps_trainer_see_outputs, .ready = by_all ? NULL : ready, .arg = t};

    t->score = (ps_score){0};
    if (t->conf.loop == NULL) {
        ps_trainer_order(t, epoch);
    }
    for (uint32_t i = 0; i < held; i++) {
        uint32_t block = a->held[t->conf.rank][i];

        if (t->conf.loop == NULL) {
            ps_trainer_gather(t, epoch, t->step, i, t->x, t->targets);
        }
        if (!ps_trainer_take_round_rows(t, r->rule_state, size)) {
            return false;
        }
        r->is_adopting = is_first && i == 0;
        r->completes_step = i + 1 == held;
        r->completes_round = is_last && r->completes_step;
        if (t->conf.loop != NULL) {
            need(t, 0, plan->layout.variable_count);
            if (!ps_gate_is_open(t->gate) ||
                !ps_trainer_foreign_block(t, r->replica, 1.0f, gradients_of(t), hooks.ready)) {
                return false;
            }
        } else {
            ps_model_set_draws(t->model,
                               ps_draw_key(plan->spec->seed, PS_DRAW_DROPOUT, t->step, block, 0));
            ps_model_train(t->model, r->replica, t->x, ps_trainer_targets(t), size, scale, i > 0,
                           gradients_of(t), &hooks, &t->score);
        }
        if (by_all && r->completes_step) {
            ps_trainer_clip_all(t, gradients_of(t), 1.0, ready);
        }
        if (!ps_gate_is_open(t->gate) ||
            !ps_trainer_is_finite(t, t->step + 1, t->score.loss_sum, size)) {
            return false;
        }
    }
    count_behind(t);
    t->step++;
    r->own_steps++;
    ps_trainer_report_step(t, epoch, batch);
    return true;
}

/* ---- Rounds ---- */

static void begin_round(ps_trainer *t, uint32_t steps)
{
    const ps_plan *plan = t->plan;
    trainer_rounds *r = &t->rounds;
    double samples = 0, mine = plan->assignment->held_count[t->conf.rank];
    bool by_samples = r->local->by_samples == NULL || r->local->by_samples(&plan->update_params);

    r->now.params = &plan->update_params;
    r->now.outer = &plan->optim_params;
    r->now.workers = plan->spec->workers;
    r->now.clock = t->clock;
    r->now.is_last = t->clock + 1 == plan->total_clocks;
    r->now.taken = ps_local_sample(r->local, &plan->update_params, plan->spec->seed, t->clock,
                                   plan->spec->workers, r->is_in);
    for (uint32_t w = 0; w < plan->spec->workers; w++) {
        samples += r->is_in[w] ? plan->assignment->held_count[w] : 0;
    }
    r->now.share = by_samples ? mine / samples : 1.0 / (double)r->now.taken;
    r->now.compensation_factor =
        plan->compensation_schedule == NULL
            ? 1.0
            : ps_schedule_factor(plan->compensation_schedule, &plan->compensation_schedule_params,
                                 t->step, plan->total_steps);
    r->now.last_rate_sum = r->now.rate_sum;
    r->now.rate_sum = 0;
    for (uint32_t i = 0; i < steps && plan->local_optim != NULL; i++) {
        r->now.rate_sum += ps_descent_rate(&plan->local_descent, t->step + i);
    }
}

/* Passes a round in which this worker does not take part: adopts the weights and contributes
 * zeros. */
static bool sit_out(ps_trainer *t, uint32_t steps)
{
    uint32_t variables = t->plan->layout.variable_count;
    /* Acknowledgements first: the rank may be parked while it waits for them, and must not have
     * adopted weights then. */
    bool open = ps_gate_wait_acks(t->gate) && ps_gate_wait_weights(t->gate, 0, variables, t->clock);

    assert(!t->rounds.local->is_overlapped);
    if (open) {
        adopt(t, 0, variables);
        ps_trainer_record_sent(t);
    }
    if (open && t->exchange->ops->nothing != NULL) {
        open = t->exchange->ops->nothing(t->exchange, t->clock);
    } else if (open) {
        open = ps_exchange_begin(t->exchange, t->clock, 0, true);
        if (open) {
            memset(t->grad->data, 0, t->grad->len);
            ps_exchange_ready(t->exchange, 0, variables);
        }
    }
    t->step += steps;
    pthread_mutex_lock(&t->mutex);
    t->progress.step = t->step;
    pthread_mutex_unlock(&t->mutex);
    return open;
}

/* Under an overlapped update: waits until the previous round's exchange is over, then sends this
 * round's contribution. Returns false if the gate was stopped or has failed. */
static bool exchange_round(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    trainer_rounds *r = &t->rounds;

    if (!ps_gate_wait_weights(t->gate, 0, plan->layout.variable_count, t->clock) ||
        !ps_exchange_begin(t->exchange, t->clock, 0, true)) {
        return false;
    }
    ps_trainer_record_sent(t);
    ps_trainer_push_round_rows(t);
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        ps_stretch s = stretch_of(t, v);

        if (!grows(t, v)) {
            r->local->contribute(&r->now, &s);
        }
        if (r->local->sends_gradients && !plan->optim_on_server) {
            ps_trainer_turn_to_increments(t, v, 1);
        }
        ps_exchange_ready(t->exchange, v, 1);
    }
    return true;
}

/* Returns whether a round ends early, when the previous round's exchange is over. If the trainer
 * fetches weights itself, nothing is exchanged during a round, so all rounds have their full number
 * of steps. */
static bool varies(const ps_trainer *t)
{
    return t->plan->rounds_vary && t->gate->hooks.fetch == NULL;
}

/* Returns how far the job is, in steps; or in rounds if their numbers of steps vary, because all
 * workers have the same rounds. */
static uint64_t position_of(const ps_trainer *t)
{
    return varies(t) ? t->clock : t->step;
}

static bool train_round(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    trainer_rounds *r = &t->rounds;
    uint64_t left = plan->total_steps - t->step;
    uint32_t steps = r->local->steps(&plan->update_params, t->clock);
    bool is_overlapped = r->local->is_overlapped;

    if (!varies(t)) {
        steps = steps < left ? steps : (uint32_t)left;
    }
    begin_round(t, steps);
    r->is_within = true;
    if (!r->is_in[t->conf.rank]) {
        if (!sit_out(t, steps)) {
            return false;
        }
    } else {
        if (!is_overlapped && !ps_exchange_begin(t->exchange, t->clock, 0, true)) {
            return false;
        }
        t->step += r->stepped; /* steps of this round that the rank took before it was parked */
        r->own_steps += r->stepped;
        for (uint32_t k = r->stepped; k < steps; k++) {
            bool adopts = k == 0 && (!is_overlapped || t->clock == 0);

            if (!local_step(t, adopts, k + 1 == steps)) {
                return false;
            }
            if (varies(t) && ps_gate_has_weights(t->gate, t->clock)) {
                break; /* the previous round's exchange is over, so this round ends */
            }
        }
        r->stepped = is_overlapped ? steps : 0;
        if (is_overlapped && !exchange_round(t)) {
            return false;
        }
        r->stepped = 0;
    }
    r->is_within = false;
    t->clock++;
    ps_trainer_record_round(t);
    return true;
}

static void log_behind(const ps_trainer *t)
{
    if (t->rounds.local->is_overlapped && t->gate->hooks.fetch == NULL) {
        ps_log(PS_LOG_INFO, "trainer",
               "of %llu steps %llu were taken while the round before was exchanged",
               (unsigned long long)t->rounds.own_steps, (unsigned long long)t->progress.behind);
    }
}

bool ps_trainer_train_rounds(ps_trainer *t)
{
    uint32_t per_epoch = t->plan->batches_per_epoch;
    bool is_end = false;

    while (position_of(t) < t->plan->total_steps && !ps_trainer_is_at_stop(t) && !is_end) {
        uint64_t before = position_of(t), epoch;
        bool ended;

        if (!ps_trainer_begin_clock(t, &is_end)) {
            return false;
        }
        if (!is_end && !train_round(t)) {
            return false;
        }
        epoch = position_of(t) / per_epoch;
        ended = epoch > before / per_epoch;
        if (is_end ? !ps_trainer_evaluate_end(t, (uint32_t)epoch)
                   : (ended || ps_trainer_is_due(t, before, position_of(t)) ||
                      position_of(t) == t->plan->total_steps) &&
                         !ps_trainer_evaluate(t, (uint32_t)(ended ? epoch - 1 : epoch))) {
            return false;
        }
    }
    log_behind(t);
    return ps_gate_wait_acks(t->gate);
}
