/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_tables.c - embeddings whose tables live on the servers: the rows of a batch are put
 * where the model's small tables are, and its ids become their places there (batch_rows.h). */
#include "common/train/trainer_impl.h"

#include "common/base/xalloc.h"
#include "common/train/batch_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct trainer_tables {
    ps_batch_rows batch;
    uint32_t *shows, *clicks; /* (batch.count) */
    ps_met_rows *met;         /* (tables): what is pushed */
};

ps_status ps_trainer_init_tables(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    struct trainer_tables *x;
    size_t cap = plan->table_keys;
    ps_status st;

    if (!plan->has_tables) {
        return ps_ok();
    }
    t->tables = x = ps_xcalloc(1, sizeof *x);
    x->shows = ps_xcalloc(cap, sizeof *x->shows);
    x->clicks = ps_xcalloc(cap, sizeof *x->clicks);
    x->met = ps_xcalloc(plan->table_count, sizeof *x->met);
    st = ps_batch_rows_init(&x->batch, plan);
    for (uint32_t i = 0; ps_is_ok(&st) && i < plan->table_count; i++) {
        ps_met_rows *met = &x->met[i];

        met->keys = ps_xcalloc(cap, sizeof *met->keys);
        met->grads = calloc(cap * plan->tables[i].width, sizeof *met->grads);
        met->shows = ps_xcalloc(cap, sizeof *met->shows);
        met->clicks = ps_xcalloc(cap, sizeof *met->clicks);
        if (met->grads == NULL) {
            st = ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu rows of %u values", cap,
                         plan->tables[i].width);
        }
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
    free(x->met);
    free(x->shows);
    free(x->clicks);
    ps_batch_rows_fini(&x->batch);
    free(x);
}

bool ps_trainer_pull_rows(ps_trainer *t, size_t n)
{
    struct trainer_tables *x = t->tables;
    ps_status st;

    if (x == NULL) {
        return true;
    }
    st = ps_batch_rows_read(&x->batch, t->x, n);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
        return false;
    }
    if (!t->exchange->ops->pull_rows(t->exchange, t->clock, x->batch.keys, x->batch.count,
                                     x->batch.rows)) {
        return false;
    }
    ps_batch_rows_put(&x->batch, t->weights, t->x, n);
    return true;
}

/* How often each id was met, and how often where the class is 1 of two. */
static void count_clicks(ps_trainer *t, size_t n)
{
    const ps_data_facts *facts = &t->plan->facts;
    struct trainer_tables *x = t->tables;

    memset(x->shows, 0, x->batch.count * sizeof *x->shows);
    memset(x->clicks, 0, x->batch.count * sizeof *x->clicks);
    for (size_t i = 0; i < n * facts->ids; i++) {
        bool is_click = facts->classes == 2 && t->targets[i / facts->ids] == 1.0f;

        x->shows[x->batch.place[i]]++;
        x->clicks[x->batch.place[i]] += is_click;
    }
}

void ps_trainer_push_rows(ps_trainer *t, uint32_t block, size_t n)
{
    struct trainer_tables *x = t->tables;

    if (x == NULL) {
        return;
    }
    count_clicks(t, n);
    for (uint32_t i = 0; i < t->plan->table_count; i++) {
        const ps_plan_table *table = &t->plan->tables[i];
        const float *grads =
            ps_trainer_gradients(t) + t->plan->layout.variables[table->variable].at;
        ps_met_rows *met = &x->met[i];
        const uint32_t *places = ps_model_rows(t->model, table->variable, &met->count);

        for (size_t j = 0; j < met->count; j++) {
            assert(places[j] < x->batch.count);
            met->keys[j] = x->batch.keys[places[j]];
            met->shows[j] = x->shows[places[j]];
            met->clicks[j] = x->clicks[places[j]];
            memcpy(met->grads + j * table->width, grads + (size_t)places[j] * table->width,
                   table->width * sizeof *grads);
        }
    }
    t->exchange->ops->push_rows(t->exchange, t->clock, block, x->met);
}
