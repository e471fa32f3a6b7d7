/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_tables.c - embeddings whose tables live on the servers: the rows of a batch are put
 * where the model's small tables are, and its ids become their places there.
 *
 * A model's embedding has as many rows as a batch can have ids (common/job/table.c). Place i
 * holds the row of the batch's i-th id, in ascending order, of every table alike.
 */
#include "common/train/trainer_impl.h"

#include "common/base/xalloc.h"
#include "common/shard/table_keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct trainer_tables {
    uint64_t *ids, *keys;     /* (table_keys): of the batch's occurrences; each once */
    uint32_t *place;          /* (table_keys): of each occurrence among keys */
    size_t count;             /* keys */
    float *rows;              /* (count, width) of each table in turn */
    uint32_t *shows, *clicks; /* (count) */
    ps_met_rows *met;         /* (tables): what is pushed */
};

ps_status ps_trainer_init_tables(ps_trainer *t)
{
    const ps_plan *plan = t->plan;
    struct trainer_tables *x;
    size_t cap = plan->table_keys, width = 0;

    if (!plan->has_tables) {
        return ps_ok();
    }
    t->tables = x = ps_xcalloc(1, sizeof *x);
    x->ids = ps_xcalloc(cap, sizeof *x->ids);
    x->keys = ps_xcalloc(cap, sizeof *x->keys);
    x->place = ps_xcalloc(cap, sizeof *x->place);
    x->shows = ps_xcalloc(cap, sizeof *x->shows);
    x->clicks = ps_xcalloc(cap, sizeof *x->clicks);
    x->met = ps_xcalloc(plan->table_count, sizeof *x->met);
    for (uint32_t i = 0; i < plan->table_count; i++) {
        ps_met_rows *met = &x->met[i];

        width += plan->tables[i].width;
        met->keys = ps_xcalloc(cap, sizeof *met->keys);
        met->grads = calloc(cap * plan->tables[i].width, sizeof *met->grads);
        met->shows = ps_xcalloc(cap, sizeof *met->shows);
        met->clicks = ps_xcalloc(cap, sizeof *met->clicks);
        if (met->grads == NULL) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu rows of %u values", cap,
                           plan->tables[i].width);
        }
    }
    x->rows = calloc(cap * width, sizeof *x->rows);
    return x->rows != NULL
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu rows of %zu values", cap, width);
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
    free(x->ids);
    free(x->keys);
    free(x->place);
    free(x->shows);
    free(x->clicks);
    free(x->rows);
    free(x);
}

/* The ids of n samples, as keys; false, with the gate failed, where one is none. */
static bool read_ids(ps_trainer *t, size_t n)
{
    const ps_data_facts *facts = &t->plan->facts;
    size_t first = facts->features - facts->ids;
    struct trainer_tables *x = t->tables;

    for (size_t i = 0; i < n * facts->ids; i++) {
        float id = t->x[i / facts->ids * facts->features + first + i % facts->ids];

        if (!(id >= 0.0f && id < (float)t->plan->tables[0].rows) || id != (float)(uint32_t)id) {
            ps_status st = ps_fail(PS_INVALID_ARGUMENT, "sample %zu: id %.9g, 0 to %u are allowed",
                                   i / facts->ids, (double)id, t->plan->tables[0].rows - 1);

            ps_gate_fail(t->gate, &st);
            return false;
        }
        x->ids[i] = (uint64_t)id;
    }
    return true;
}

/* Rows to the model's tables, and places into the samples. */
static void put_rows(ps_trainer *t, size_t n)
{
    const ps_data_facts *facts = &t->plan->facts;
    size_t first = facts->features - facts->ids;
    struct trainer_tables *x = t->tables;
    const float *from = x->rows;

    for (uint32_t i = 0; i < t->plan->table_count; i++) {
        size_t values = x->count * t->plan->tables[i].width;

        memcpy(t->weights + t->plan->layout.variables[t->plan->tables[i].variable].at, from,
               values * sizeof *from);
        from += values;
    }
    for (size_t i = 0; i < n * facts->ids; i++) {
        t->x[i / facts->ids * facts->features + first + i % facts->ids] = (float)x->place[i];
    }
}

bool ps_trainer_pull_rows(ps_trainer *t, size_t n)
{
    struct trainer_tables *x = t->tables;

    if (x == NULL) {
        return true;
    }
    if (!read_ids(t, n)) {
        return false;
    }
    x->count = ps_keys_unique(x->ids, n * t->plan->facts.ids, x->keys, x->place);
    if (!t->exchange->ops->pull_rows(t->exchange, t->clock, x->keys, x->count, x->rows)) {
        return false;
    }
    put_rows(t, n);
    return true;
}

/* How often each id was met, and how often where the class is 1 of two. */
static void count_clicks(ps_trainer *t, size_t n)
{
    const ps_data_facts *facts = &t->plan->facts;
    struct trainer_tables *x = t->tables;

    memset(x->shows, 0, x->count * sizeof *x->shows);
    memset(x->clicks, 0, x->count * sizeof *x->clicks);
    for (size_t i = 0; i < n * facts->ids; i++) {
        bool is_click = facts->classes == 2 && t->targets[i / facts->ids] == 1.0f;

        x->shows[x->place[i]]++;
        x->clicks[x->place[i]] += is_click;
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
            assert(places[j] < x->count);
            met->keys[j] = x->keys[places[j]];
            met->shows[j] = x->shows[places[j]];
            met->clicks[j] = x->clicks[places[j]];
            memcpy(met->grads + j * table->width, grads + (size_t)places[j] * table->width,
                   table->width * sizeof *grads);
        }
    }
    t->exchange->ops->push_rows(t->exchange, t->clock, block, x->met);
}
