/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_state.c - saves a rank to a file and reads it back; trainer.h has the layout. */
#include "common/train/trainer_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC "PSGDRNK1"

enum { VERSION = 1, HEAD = 1, VARIABLE = 2, SAID = 5, PLACE = 6, PROGRAM = 7 };

/* Returns where the variable's floats begin in `block`, which has `slots` floats for each
 * parameter. */
static float *part_of(float *block, const ps_variable *var, size_t slots)
{
    return block + var->at * slots;
}

static size_t rule_slots(const ps_trainer *t)
{
    return t->rounds.rule_state != NULL ? t->plan->local_optim->slots : 0;
}

/* Calls fn for each array of floats that a rank has for a variable, in the order of the file. */
static void each_run(const ps_trainer *t, const ps_variable *var, bool with_weights,
                     void (*fn)(void *arg, float *x, size_t n), void *arg)
{
    const trainer_rounds *r = &t->rounds;

    if (with_weights) {
        fn(arg, t->weights + var->at, var->size);
    }
    if (t->optim_state != NULL) {
        size_t slots = t->plan->optim->slots;

        fn(arg, part_of(t->optim_state, var, slots), var->size * slots);
    }
    if (r->local != NULL) {
        fn(arg, r->replica + var->at, var->size);
    }
    if (r->slots != NULL) {
        fn(arg, part_of(r->slots, var, r->local->slots), var->size * r->local->slots);
    }
    if (r->rule_state != NULL) {
        fn(arg, part_of(r->rule_state, var, rule_slots(t)), var->size * rule_slots(t));
    }
    if (r->stepped > 0 && r->local->sends_gradients) { /* the contribution of the steps taken */
        fn(arg, r->grad + var->at, var->size);
    }
}

/* Returns the number of rows of variable v, if it is sparse and its touched rows are tracked; else
 * 0. */
static size_t tracked_rows(const ps_trainer *t, uint32_t v)
{
    return t->rounds.touched != NULL && t->rounds.touched[v] != NULL
               ? t->plan->layout.variables[v].shape.dim[0]
               : 0;
}

/* ---- Save ---- */

static void put_run(void *arg, float *x, size_t n)
{
    ps_state_put(arg, x, n * sizeof *x);
}

static void put_head(const ps_trainer *t, uint32_t variables, ps_state_out *out)
{
    const trainer_rounds *r = &t->rounds;
    /* the rates of a round that has begun are added again when the round is trained again */
    double rate_sum = r->is_within ? r->now.last_rate_sum : r->now.rate_sum;

    ps_state_begin(out, HEAD, 0);
    ps_state_put_u64(out, ps_plan_hash(t->plan));
    ps_state_put_u32(out, t->conf.rank);
    ps_state_put_u32(out, variables);
    ps_state_put_u64(out, t->clock);
    ps_state_put_u64(out, t->step);
    ps_state_put_u64(out, r->own_steps);
    ps_state_put(out, &rate_sum, sizeof rate_sum);
    ps_state_finish(out);
}

bool ps_trainer_is_lean(const ps_trainer *t)
{
    return !ps_plan_ranks_have_state(t->plan) && !t->plan->update->broadcasts;
}

ps_status ps_trainer_save(ps_trainer *t, ps_exchange *exchange, ps_state_write_fn *write, void *arg)
{
    ps_status st = ps_trainer_keep_program(t);

    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_trainer_keep_reports(t);
    st = ps_trainer_save_kept(t, exchange, write, arg);
    ps_trainer_drop_reports(t);
    ps_trainer_drop_program(t);
    return st;
}

static ps_status save(ps_trainer *t, ps_exchange *exchange, bool is_parked,
                      ps_state_write_fn *write, void *arg)
{
    uint32_t variables = is_parked || !ps_trainer_is_lean(t) ? t->plan->layout.variable_count : 0;
    ps_state_out out;
    ps_status st = ps_ok(), put, end;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_head(t, variables, &out);
    if (is_parked || t->rounds.stepped > 0 || ps_trainer_is_at_goal(t)) {
        ps_state_begin(&out, PLACE, 0);
        st = ps_trainer_put_place(t, exchange, is_parked, &out);
        ps_state_finish(&out);
    }
    for (uint32_t v = 0; v < variables && ps_is_ok(&out.status); v++) {
        ps_state_begin(&out, VARIABLE, v);
        each_run(t, &t->plan->layout.variables[v], !is_parked, put_run, &out);
        if (tracked_rows(t, v) > 0) {
            ps_state_put(&out, t->rounds.touched[v],
                         tracked_rows(t, v) * sizeof *t->rounds.touched[v]);
        }
        if (exchange->ops->put != NULL) {
            exchange->ops->put(exchange, v, &out);
        }
        ps_state_finish(&out);
    }
    if (t->program != NULL) {
        ps_state_begin(&out, PROGRAM, 0);
        ps_state_put(&out, t->program->data, t->program->len);
        ps_state_finish(&out);
    }
    put = ps_trainer_put_earlier(t, &out);
    end = ps_state_out_end(&out);
    st = ps_is_ok(&st) ? put : st;
    return ps_is_ok(&st) ? end : st;
}

ps_status ps_trainer_save_kept(ps_trainer *t, ps_exchange *exchange, ps_state_write_fn *write,
                               void *arg)
{
    return save(t, exchange, false, write, arg);
}

ps_status ps_trainer_save_parked(ps_trainer *t, ps_exchange *exchange, ps_state_write_fn *write,
                                 void *arg)
{
    ps_round_entry before = t->record.before;
    /* the program has answered, and waits for the next step */
    ps_status st = ps_trainer_keep_program(t);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (t->has_ended) { /* the trainer's files are closed, and t->reports has their content */
        st = save(t, exchange, true, write, arg);
        ps_trainer_drop_program(t);
        return st;
    }
    if (t->is_evaluating) { /* the next attempt adds the evaluation to the entry and writes it */
        t->record.before = (ps_round_entry){0};
    }
    ps_trainer_keep_reports(t);
    t->record.before = t->is_evaluating ? before : t->record.before;
    st = save(t, exchange, true, write, arg);
    ps_trainer_drop_reports(t);
    ps_trainer_drop_program(t);
    return st;
}

/* Writes the head of the file of a rank that has no state of its own. */
static void put_plain_head(const ps_plan *plan, uint32_t rank, uint32_t variables, uint64_t clock,
                           ps_state_out *out)
{
    const double rate_sum = 0;

    ps_state_begin(out, HEAD, 0);
    ps_state_put_u64(out, ps_plan_hash(plan));
    ps_state_put_u32(out, rank);
    ps_state_put_u32(out, variables);
    ps_state_put_u64(out, clock);
    ps_state_put_u64(out, clock); /* the step, which equals the clock for such a rank */
    ps_state_put_u64(out, 0);
    ps_state_put(out, &rate_sum, sizeof rate_sum);
    ps_state_finish(out);
}

static ps_status end_with_said(const void *said, size_t len, ps_state_out *out)
{
    ps_state_begin(out, SAID, 0);
    ps_state_put(out, said, len);
    ps_state_finish(out);
    return ps_state_out_end(out);
}

ps_status ps_trainer_save_said(const ps_plan *plan, uint32_t rank, uint64_t clock, const void *said,
                               size_t len, ps_state_write_fn *write, void *arg)
{
    ps_state_out out;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_plain_head(plan, rank, 0, clock, &out);
    return end_with_said(said, len, &out);
}

ps_status ps_trainer_save_alike(const ps_trainer *t, const ps_exchange *exchange,
                                ps_state_write_fn *write, void *arg)
{
    ps_state_out out;

    ps_state_out_init_part(&out, write, arg);
    for (uint32_t v = 0; v < t->plan->layout.variable_count && ps_is_ok(&out.status); v++) {
        ps_state_begin(&out, VARIABLE, v);
        each_run(t, &t->plan->layout.variables[v], true, put_run, &out);
        exchange->ops->put(exchange, v, &out);
        ps_state_finish(&out);
    }
    return ps_state_out_part(&out);
}

ps_status ps_trainer_save_like(const ps_trainer *t, uint32_t rank, uint64_t clock,
                               const ps_said *said, ps_state_write_fn *write, void *arg)
{
    uint32_t variables = t->plan->layout.variable_count;
    ps_state_out out;

    ps_state_out_init(&out, MAGIC, VERSION, write, arg);
    put_plain_head(t->plan, rank, variables, clock, &out);
    out.sections += variables; /* ps_trainer_save_alike writes them */
    return end_with_said(said->bytes, said->len, &out);
}

static ps_status count_bytes(void *arg, const void *bytes, size_t len)
{
    (void)bytes;
    *(size_t *)arg += len;
    return ps_ok();
}

size_t ps_trainer_alike_at(const ps_trainer *t)
{
    size_t n = 0;
    ps_state_out out;
    ps_status st;

    ps_state_out_init(&out, MAGIC, VERSION, count_bytes, &n);
    put_plain_head(t->plan, 0, 0, 0, &out);
    st = ps_state_out_part(&out);
    assert(ps_is_ok(&st));
    return n;
}

/* ---- Load ---- */

static void take_run(void *arg, float *x, size_t n)
{
    ps_state_take(arg, x, n * sizeof *x);
}

/* Returns whether clock and steps are possible under the plan. With local steps a clock has one or
 * more steps, else one. */
static bool is_place(const ps_plan *plan, uint64_t clock, uint64_t step, uint64_t own_steps)
{
    return clock <= plan->total_clocks && (step <= plan->total_steps || plan->rounds_vary) &&
           own_steps <= step && (plan->update->local != NULL ? step >= clock : step == clock);
}

/* Reads and checks the first section. Sets *has_variables to whether the file has sections of all
 * variables; if not, the rank has no state but the model's weights. */
static ps_status take_head(ps_trainer *t, ps_state_in *in, bool *has_variables)
{
    uint64_t job = ps_state_take_u64(in), mine = ps_plan_hash(t->plan);
    uint32_t rank = ps_state_take_u32(in), variables = ps_state_take_u32(in);
    uint64_t clock = ps_state_take_u64(in), step = ps_state_take_u64(in),
             own_steps = ps_state_take_u64(in);
    double rate_sum;

    ps_state_take(in, &rate_sum, sizeof rate_sum);
    if (!ps_state_is_ok(in)) {
        return in->status;
    }
    if (job != mine) {
        return ps_fail(PS_FAILED_PRECONDITION, "job: %016" PRIx64 "; this one computes %016" PRIx64,
                       job, mine);
    }
    *has_variables = variables > 0 || ps_plan_ranks_have_state(t->plan);
    if (rank != t->conf.rank || (*has_variables && variables != t->plan->layout.variable_count)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "rank %" PRIu32 " of %" PRIu32 " variables; this is rank %" PRIu32
                       " of %" PRIu32,
                       rank, variables, t->conf.rank, t->plan->layout.variable_count);
    }
    if (!is_place(t->plan, clock, step, own_steps)) {
        ps_state_fail(in,
                      "clock %" PRIu64 ", step %" PRIu64 ", %" PRIu64 " own steps: not of a job "
                      "with %" PRIu64 " steps",
                      clock, step, own_steps, t->plan->total_steps);
    }
    t->clock = t->place.from = clock;
    t->step = t->progress.step = step;
    t->rounds.own_steps = own_steps;
    t->progress.iterations = t->plan->update->local != NULL ? own_steps : step;
    t->rounds.now.rate_sum = rate_sum;
    return ps_state_done(in);
}

/* Checks the rounds in which rows were touched last: none may be after the completed rounds. 0
 * stands for never. */
static void check_touched(const ps_trainer *t, uint32_t v, ps_state_in *in)
{
    for (size_t i = 0; ps_state_is_ok(in) && i < tracked_rows(t, v); i++) {
        if (t->rounds.touched[v][i] > t->clock) {
            ps_state_fail(in, "row %zu of variable %" PRIu32 " was touched in round %" PRIu64, i, v,
                          t->rounds.touched[v][i]);
        }
    }
}

static ps_status take_variable(ps_trainer *t, ps_exchange *exchange, uint32_t v, ps_state_in *in)
{
    each_run(t, &t->plan->layout.variables[v], !t->place.lacks_weights, take_run, in);
    if (tracked_rows(t, v) > 0) {
        ps_state_take(in, t->rounds.touched[v], tracked_rows(t, v) * sizeof *t->rounds.touched[v]);
        check_touched(t, v, in);
    }
    if (exchange->ops->take != NULL) {
        exchange->ops->take(exchange, v, in);
    }
    return ps_state_done(in);
}

static ps_status take_end(ps_trainer *t, ps_exchange *exchange, uint32_t variables,
                          bool has_weights)
{
    if (variables != t->plan->layout.variable_count) {
        return ps_fail(PS_DATA_LOSS, "%" PRIu32 " of %" PRIu32 " variables", variables,
                       t->plan->layout.variable_count);
    }
    /* Weights of clock 0 need no pull, because workers have exactly the initial weights. */
    t->place.pulls_weights =
        !has_weights && t->place.from > 0 && !ps_plan_gives_exact_weights(t->plan);
    if (exchange->ops->begin_at != NULL) {
        exchange->ops->begin_at(exchange, t->place.from, !t->place.pulls_weights);
    }
    return ps_ok();
}

ps_status ps_trainer_load(ps_trainer *t, ps_exchange *exchange, const uint8_t *bytes, size_t len)
{
    uint32_t kind, index, next = 0;
    bool is_own = ps_trainer_is_own(t), has_variables = true, has_program = false;
    ps_state_in in;
    ps_status st = ps_state_open(&in, MAGIC, VERSION, HEAD, bytes, len);

    if (ps_is_ok(&st)) {
        st = take_head(t, &in, &has_variables);
        next = has_variables ? 0 : t->plan->layout.variable_count;
    }
    while (ps_is_ok(&st)) {
        st = ps_state_next(&in, true, &kind, &index);
        if (ps_is_ok(&st) && kind == 0) {
            return take_end(t, exchange, next, has_variables && !t->place.lacks_weights);
        }
        if (ps_is_ok(&st) && next == t->plan->layout.variable_count && kind == SAID && index == 0) {
            st = ps_trainer_take_said(t, &in, is_own);
            continue;
        }
        if (ps_is_ok(&st) && in.sections == 2 && kind == PLACE && index == 0) {
            st = ps_trainer_take_place(t, exchange, has_variables, &in);
            continue;
        }
        if (ps_is_ok(&st) && has_variables && next == t->plan->layout.variable_count &&
            kind == PROGRAM && index == 0 && !has_program) {
            has_program = true;
            st = ps_trainer_take_program(t, &in);
            continue;
        }
        if (ps_is_ok(&st) && next == t->plan->layout.variable_count && kind != VARIABLE) {
            st = ps_trainer_take_earlier(t, &in, kind, index, is_own);
            continue;
        }
        if (ps_is_ok(&st) &&
            (kind != VARIABLE || index != next || index >= t->plan->layout.variable_count)) {
            ps_state_fail(&in,
                          "section %" PRIu32 " of kind %" PRIu32 "; variable %" PRIu32 " is next",
                          index, kind, next);
            st = in.status;
        }
        if (ps_is_ok(&st)) {
            st = take_variable(t, exchange, next++, &in);
        }
    }
    return st;
}
