/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_tables.c - embeddings that are exchanged as rows by id. The worker pushes the rows that a
 * contribution touched. With tables that grow, the rows of a batch are copied into small embeddings
 * of the model, and the batch's ids are replaced by the places of the rows there (batch_rows.h). */
#include "common/train/trainer_impl.h"

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/table_numbers.h"
#include "common/train/batch_rows.h"
#include "common/train/round_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct trainer_tables {
    /* The members down to `clicks` are for tables that grow; unused with a fixed vocabulary. */
    /* one has the rows of the present block, the other those of the block that was requested
     * ahead */
    ps_batch_rows batches[2];
    ps_batch_rows *batch; /* the one with the present block; NULL: the vocabulary is fixed */
    /* samples of the block that was requested ahead; swapped with the trainer's own */
    float *x, *targets;
    /* the block number `block` of clock `clock` was gathered ahead, and its rows were requested */
    bool is_ahead;
    uint64_t clock;
    uint32_t block;
    /* asked: number of blocks whose rows were requested ahead; there: of these, those whose rows
     * came before they were needed */
    uint64_t asked, there;
    uint32_t *shows, *clicks; /* (batch->count), of the present block (count_clicks) */
    /* rows of the present round of local steps; NULL: every step is a clock */
    ps_round_rows *round;
    uint64_t *missing; /* (table_keys) ids of a batch whose rows are not in `round` yet */

    ps_met_rows *met; /* (tables): the rows to push, of fixed vocabularies too */
    uint32_t filled;  /* number of tables whose rows of this contribution are in `met` */
    size_t cap;       /* number of rows of each table for which `met` has room */
};

/* Allocates memory for the samples and rows of a block that is requested ahead. */
static ps_status init_ahead(const ps_trainer *t, struct trainer_tables *x)
{
    const ps_data_facts *facts = &t->plan->facts;

    x->x = calloc(t->batch * facts->features, sizeof *x->x);
    x->targets = calloc(t->batch * facts->target_width, sizeof *x->targets);
    if (x->x == NULL || x->targets == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for two blocks of samples");
    }
    return ps_batch_rows_init(&x->batches[1], t->plan);
}

/* Makes room for `count` rows of each table in `met`. */
static void reserve(const ps_trainer *t, size_t count)
{
    struct trainer_tables *x = t->tables;

    if (count <= x->cap) {
        return;
    }
    x->cap = count + count / 2;
    for (uint32_t i = 0; i < t->plan->table_count; i++) {
        ps_met_rows *met = &x->met[i];

        met->keys = ps_xrealloc(met->keys, x->cap * sizeof *met->keys);
        met->grads =
            ps_xrealloc(met->grads, x->cap * t->plan->tables[i].width * sizeof *met->grads);
        if (x->batch != NULL) {
            met->shows = ps_xrealloc(met->shows, x->cap * sizeof *met->shows);
            met->clicks = ps_xrealloc(met->clicks, x->cap * sizeof *met->clicks);
        }
    }
}

ps_status ps_trainer_init_tables(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    struct trainer_tables *x;
    ps_status st;

    if (plan->table_count == 0) {
        return ps_ok();
    }
    t->tables = x = ps_xcalloc(1, sizeof *x);
    x->met = ps_xcalloc(plan->table_count, sizeof *x->met);
    if (plan->table_keys ==
        0) { /* a fixed vocabulary: workers have all rows, so none are requested */
        return ps_ok();
    }
    x->shows = ps_xcalloc(plan->table_keys, sizeof *x->shows);
    x->clicks = ps_xcalloc(plan->table_keys, sizeof *x->clicks);
    x->batch = &x->batches[0];
    st = ps_batch_rows_init(&x->batches[0], plan);
    if (plan->update->local != NULL) {
        x->round = ps_round_rows_create(plan, plan->local_optim->slots);
        x->missing = ps_xcalloc(plan->table_keys, sizeof *x->missing);
        return st;
    }
    if (ps_is_ok(&st) && plan->table_params.v[PS_TABLE_PREFETCH] != 0) {
        st = init_ahead(t, x);
    }
    return st;
}

void ps_trainer_fini_tables(ps_trainer *t)
{
    struct trainer_tables *x = t->tables;

    if (x == NULL) {
        return;
    }
    for (uint32_t i = 0; i < t->plan->table_count; i++) {
        free(x->met[i].keys);
        free(x->met[i].grads);
        free(x->met[i].shows);
        free(x->met[i].clicks);
    }
    ps_round_rows_destroy(x->round);
    free(x->missing);
    free(x->met);
    free(x->shows);
    free(x->clicks);
    free(x->x);
    free(x->targets);
    ps_batch_rows_fini(&x->batches[0]);
    ps_batch_rows_fini(&x->batches[1]);
    free(x);
}

bool ps_trainer_pull_rows(ps_trainer *t, size_t n)
{
    struct trainer_tables *x = t->tables;
    ps_status st;

    if (x == NULL || x->batch == NULL) {
        return true;
    }
    assert(!x->is_ahead);
    st = ps_batch_rows_read(x->batch, t->x, n);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
        return false;
    }
    if (!t->exchange->ops->pull_rows(t->exchange, t->clock, x->batch->keys, x->batch->count,
                                     x->batch->rows)) {
        return false;
    }
    ps_batch_rows_put(x->batch, t->weights, t->x, n);
    return true;
}

/* ---- The next block, requested ahead ---- */

static void swap(float **a, float **b)
{
    float *held = *a;

    *a = *b;
    *b = held;
}

bool ps_trainer_take_ahead(ps_trainer *t, uint32_t block, size_t n)
{
    struct trainer_tables *x = t->tables;

    assert(x->is_ahead && x->clock == t->clock && x->block == block);
    x->is_ahead = false;
    swap(&t->x, &x->x);
    swap(&t->targets, &x->targets);
    x->batch = x->batch == &x->batches[0] ? &x->batches[1] : &x->batches[0];
    x->asked++;
    x->there += ps_gate_has_rows(t->gate);
    if (!ps_gate_wait_rows(t->gate, t->clock)) {
        return false;
    }
    ps_batch_rows_put(x->batch, t->weights, t->x, n);
    return true;
}

bool ps_trainer_is_ahead(const ps_trainer *t)
{
    return t->tables != NULL && t->tables->is_ahead;
}

/* Moves *clock and *i to the block that this worker trains after its i-th block of *clock. Returns
 * false if an evaluation or the end of the epoch comes before that block, or the job ends. */
static bool find_next(const ps_trainer *t, uint64_t *clock, uint32_t *i)
{
    uint32_t every = t->plan->spec->eval_every_steps;

    if (++*i < t->plan->assignment->held_count[t->conf.rank]) {
        return true;
    }
    *i = 0;
    ++*clock;
    /* An evaluation requests rows itself. */
    return *clock < t->plan->total_clocks && *clock % t->plan->batches_per_epoch != 0 &&
           (every == 0 || *clock % every != 0);
}

void ps_trainer_go_ahead(ps_trainer *t, uint32_t epoch, uint32_t i)
{
    struct trainer_tables *x = t->tables;
    uint64_t clock = t->clock;
    ps_batch_rows *next;
    ps_status st;

    /* A worker that may be overtaken does not know which block it will train next. */
    if (x == NULL || x->x == NULL || t->exchange->ops->ask_rows == NULL ||
        ps_exchange_may_be_overtaken(t->exchange) || !find_next(t, &clock, &i)) {
        return;
    }
    x->clock = clock;
    x->block = t->plan->assignment->held[t->conf.rank][i];
    next = x->batch == &x->batches[0] ? &x->batches[1] : &x->batches[0];
    ps_trainer_gather(t, epoch, clock, i, x->x, x->targets);
    st = ps_batch_rows_read(next, x->x, t->plan->spec->block_size);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
        return;
    }
    x->is_ahead = true;
    t->exchange->ops->ask_rows(t->exchange, x->clock, next->keys, next->count, next->rows);
}

bool ps_trainer_drop_ahead(ps_trainer *t)
{
    struct trainer_tables *x = t->tables;

    if (!ps_trainer_is_ahead(t)) {
        return true;
    }
    x->is_ahead = false;
    return ps_gate_wait_rows(t->gate, x->clock);
}

void ps_trainer_log_tables(const ps_trainer *t)
{
    const struct trainer_tables *x = t->tables;

    if (x != NULL && x->asked > 0) {
        ps_log(PS_LOG_INFO, "trainer",
               "rows of %llu blocks were asked for while the block before was computed, of %llu "
               "blocks they arrived in time",
               (unsigned long long)x->asked, (unsigned long long)x->there);
    }
}

/* Counts how often the block has each id (shows). If there are two classes, also counts how often
 * samples of class 1 have it (clicks). */
static void count_clicks(ps_trainer *t)
{
    const ps_data_facts *facts = &t->plan->facts;
    struct trainer_tables *x = t->tables;
    size_t n = t->plan->spec->block_size;

    memset(x->shows, 0, x->batch->count * sizeof *x->shows);
    memset(x->clicks, 0, x->batch->count * sizeof *x->clicks);
    for (size_t i = 0; i < n * facts->ids; i++) {
        bool is_click = facts->classes == 2 && t->targets[i / facts->ids] == 1.0f;

        x->shows[x->batch->place[i]]++;
        x->clicks[x->batch->place[i]] += is_click;
    }
}

/* Copies the rows of a table that the contribution touched to met[table]: keys and gradients and,
 * if the table grows, shows and clicks. */
static void fill(ps_trainer *t, uint32_t table)
{
    const struct trainer_tables *x = t->tables;
    uint32_t v = t->plan->tables[table].variable;
    size_t count, width = t->plan->tables[table].width;
    const float *grads = ps_trainer_gradients(t) + t->plan->layout.variables[v].at;
    const uint32_t *rows = ps_model_rows(t->model, v, &count);
    ps_met_rows *met = &t->tables->met[table];

    reserve(t, count);
    met->count = count;
    for (size_t j = 0; j < count; j++) {
        met->keys[j] = x->batch != NULL ? x->batch->keys[rows[j]] : rows[j];
        memcpy(met->grads + j * width, grads + (size_t)rows[j] * width, width * sizeof *grads);
    }
    for (size_t j = 0; x->batch != NULL && j < count; j++) {
        assert(rows[j] < x->batch->count);
        met->shows[j] = x->shows[rows[j]];
        met->clicks[j] = x->clicks[rows[j]];
    }
}

void ps_trainer_push_rows(ps_trainer *t, uint32_t first_variable, uint32_t count)
{
    const ps_plan *plan = t->plan;
    struct trainer_tables *x = t->tables;

    for (uint32_t v = first_variable; x != NULL && v < first_variable + count; v++) {
        if (plan->table_of[v] == PS_NO_TABLE) {
            continue;
        }
        if (x->batch != NULL && x->filled == 0) {
            count_clicks(t);
        }
        fill(t, plan->table_of[v]);
        if (++x->filled == plan->table_count) {
            x->filled = 0;
            t->exchange->ops->push_rows(t->exchange, x->met);
        }
    }
}

/* ---- Rounds of local steps ---- */

bool ps_trainer_take_round_rows(ps_trainer *t, float *state, size_t n)
{
    struct trainer_tables *x = t->tables;
    size_t missing;
    ps_status st;

    if (x == NULL || x->round == NULL) {
        return true;
    }
    st = ps_batch_rows_read(x->batch, t->x, n);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
        return false;
    }
    missing = ps_round_rows_missing(x->round, x->batch, x->missing);
    if (missing > 0) {
        if (!t->exchange->ops->pull_rows(t->exchange, t->clock, x->missing, missing,
                                         x->batch->rows)) {
            return false;
        }
        ps_round_rows_add(x->round, x->missing, missing, x->batch->rows);
    }
    ps_round_rows_get(x->round, x->batch, state);
    ps_batch_rows_put(x->batch, t->rounds.replica, t->x, n);
    count_clicks(t);
    return true;
}

uint64_t ps_trainer_row_steps(const ps_trainer *t, uint32_t place)
{
    return ps_round_rows_steps(t->tables->round, t->tables->batch, place);
}

void ps_trainer_keep_round_rows(ps_trainer *t, const float *state)
{
    struct trainer_tables *x = t->tables;

    if (x != NULL && x->round != NULL) {
        ps_round_rows_put(x->round, x->batch, t->rounds.replica, state, x->shows, x->clicks);
    }
}

void ps_trainer_push_round_rows(ps_trainer *t)
{
    struct trainer_tables *x = t->tables;

    if (x == NULL || x->round == NULL) {
        return;
    }
    reserve(t, ps_round_rows_count(x->round));
    for (uint32_t i = 0; i < t->plan->table_count; i++) {
        ps_round_rows_contribute(x->round, t->rounds.local, &t->rounds.now, i, &x->met[i]);
    }
    t->exchange->ops->push_rows(t->exchange, x->met);
    ps_round_rows_clear(x->round);
}
