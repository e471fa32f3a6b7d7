/* SPDX-License-Identifier: Apache-2.0 */
/* round_rows.c - see round_rows.h. Rows lie in the order in which they were added. A hash table of
 * `places`, at most half full, finds them by their ids. */
#include "common/train/round_rows.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES_LEAST = 1024 };
#define NO_ROW UINT32_MAX

struct ps_round_rows {
    const ps_plan *plan;
    unsigned slots;
    size_t count, cap;                /* number of rows, and of rows for which there is memory */
    uint64_t *keys;                   /* (cap) */
    uint32_t *steps, *shows, *clicks; /* (cap) */
    struct {
        float *w, *x, *state; /* (cap, width), (cap, width), (cap, slots, width) */
    } * tables;               /* (table_count) */
    uint32_t *places;         /* (place_count) index of a row, or NO_ROW */
    size_t place_count;       /* a power of two */
};

static void empty(ps_round_rows *r)
{
    for (size_t i = 0; i < r->place_count; i++) {
        r->places[i] = NO_ROW;
    }
}

ps_round_rows *ps_round_rows_create(const ps_plan *plan, unsigned slots)
{
    ps_round_rows *r = ps_xcalloc(1, sizeof *r);

    r->plan = plan;
    r->slots = slots;
    r->tables = ps_xcalloc(plan->table_count, sizeof *r->tables);
    r->place_count = PLACES_LEAST;
    r->places = ps_xcalloc(r->place_count, sizeof *r->places);
    empty(r);
    return r;
}

void ps_round_rows_destroy(ps_round_rows *r)
{
    if (r == NULL) {
        return;
    }
    for (uint32_t i = 0; i < r->plan->table_count; i++) {
        free(r->tables[i].w);
        free(r->tables[i].x);
        free(r->tables[i].state);
    }
    free(r->tables);
    free(r->keys);
    free(r->steps);
    free(r->shows);
    free(r->clicks);
    free(r->places);
    free(r);
}

/* Returns the number of a round that is so late that all rounds after it have the same number of
 * steps. */
static uint64_t settled_round(const ps_plan *plan)
{
    const ps_local *local = plan->update->local;

    return local->settles != NULL ? local->settles(&plan->update_params) : 0;
}

size_t ps_round_rows_memory(const ps_plan *plan, unsigned slots)
{
    /* `rows` is the most ids that a round can have. reserve() allocates up to half as many rows
     * more, and up to four places for each row. */
    uint64_t steps = plan->update->local->steps(&plan->update_params, settled_round(plan));
    uint64_t met = steps * plan->spec->block_size * plan->facts.ids, rows = 0;
    size_t bytes = sizeof(uint64_t) + 3 * sizeof(uint32_t) + 4 * sizeof(uint32_t);

    for (uint32_t i = 0; i < plan->table_count; i++) {
        uint64_t most = met < plan->tables[i].rows ? met : plan->tables[i].rows;

        rows = rows > most ? rows : most;
        bytes += (2 + (size_t)slots) * plan->tables[i].width * sizeof(float);
    }
    return (size_t)rows * bytes * 3 / 2;
}

/* Returns the index in `places` that has the id's row, or would have it. */
static size_t place_of(const ps_round_rows *r, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (r->place_count - 1);

    while (r->places[at] != NO_ROW && r->keys[r->places[at]] != key) {
        at = (at + 1) & (r->place_count - 1);
    }
    return at;
}

static uint32_t find(const ps_round_rows *r, uint64_t key)
{
    return r->places[place_of(r, key)];
}

size_t ps_round_rows_missing(const ps_round_rows *r, const ps_batch_rows *batch, uint64_t *keys)
{
    size_t n = 0;

    for (size_t i = 0; i < batch->count; i++) {
        if (find(r, batch->keys[i]) == NO_ROW) {
            keys[n++] = batch->keys[i];
        }
    }
    return n;
}

/* Makes room for `count` rows in all, and for their places. */
static void reserve(ps_round_rows *r, size_t count)
{
    if (count > r->cap) {
        r->cap = count + count / 2;
        r->keys = ps_xrealloc(r->keys, r->cap * sizeof *r->keys);
        r->steps = ps_xrealloc(r->steps, r->cap * sizeof *r->steps);
        r->shows = ps_xrealloc(r->shows, r->cap * sizeof *r->shows);
        r->clicks = ps_xrealloc(r->clicks, r->cap * sizeof *r->clicks);
        for (uint32_t i = 0; i < r->plan->table_count; i++) {
            size_t values = r->cap * r->plan->tables[i].width;

            r->tables[i].w = ps_xrealloc(r->tables[i].w, values * sizeof(float));
            r->tables[i].x = ps_xrealloc(r->tables[i].x, values * sizeof(float));
            if (r->slots > 0) {
                r->tables[i].state =
                    ps_xrealloc(r->tables[i].state, values * r->slots * sizeof(float));
            }
        }
    }
    if (2 * count > r->place_count) {
        while (2 * count > r->place_count) {
            r->place_count *= 2;
        }
        r->places = ps_xrealloc(r->places, r->place_count * sizeof *r->places);
        empty(r);
        for (size_t i = 0; i < r->count; i++) {
            r->places[place_of(r, r->keys[i])] = (uint32_t)i;
        }
    }
}

void ps_round_rows_add(ps_round_rows *r, const uint64_t *keys, size_t count, const float *pulled)
{
    size_t first = r->count;

    reserve(r, first + count);
    for (size_t i = 0; i < count; i++) {
        size_t place = place_of(r, keys[i]), row = first + i;

        assert(r->places[place] == NO_ROW);
        r->places[place] = (uint32_t)row;
        r->keys[row] = keys[i];
        r->steps[row] = r->shows[row] = r->clicks[row] = 0;
        r->count++;
    }
    for (uint32_t t = 0; t < r->plan->table_count; t++) {
        size_t width = r->plan->tables[t].width, bytes = count * width * sizeof(float);

        memcpy(r->tables[t].w + first * width, pulled, bytes);
        memcpy(r->tables[t].x + first * width, pulled, bytes);
        if (r->slots > 0) {
            memset(r->tables[t].state + first * width * r->slots, 0, bytes * r->slots);
        }
        pulled += count * width;
    }
}

/* Returns the index, in the optimizer state of the whole model, at which that of a table's variable
 * begins. */
static size_t state_at(const ps_round_rows *r, uint32_t table)
{
    return r->plan->layout.variables[r->plan->tables[table].variable].at * r->slots;
}

void ps_round_rows_get(const ps_round_rows *r, ps_batch_rows *batch, float *state)
{
    float *to = batch->rows;

    for (uint32_t t = 0; t < r->plan->table_count; t++) {
        size_t width = r->plan->tables[t].width;
        size_t size = r->plan->layout.variables[r->plan->tables[t].variable].size;

        for (size_t i = 0; i < batch->count; i++) {
            size_t row = find(r, batch->keys[i]);

            memcpy(to + i * width, r->tables[t].x + row * width, width * sizeof *to);
            for (unsigned k = 0; k < r->slots; k++) {
                memcpy(state + state_at(r, t) + k * size + i * width,
                       r->tables[t].state + (row * r->slots + k) * width, width * sizeof *state);
            }
        }
        to += batch->count * width;
    }
}

void ps_round_rows_put(ps_round_rows *r, const ps_batch_rows *batch, const float *weights,
                       const float *state, const uint32_t *shows, const uint32_t *clicks)
{
    for (uint32_t t = 0; t < r->plan->table_count; t++) {
        const ps_variable *var = &r->plan->layout.variables[r->plan->tables[t].variable];
        size_t width = r->plan->tables[t].width;

        for (size_t i = 0; i < batch->count; i++) {
            size_t row = find(r, batch->keys[i]);

            memcpy(r->tables[t].x + row * width, weights + var->at + i * width,
                   width * sizeof *weights);
            for (unsigned k = 0; k < r->slots; k++) {
                memcpy(r->tables[t].state + (row * r->slots + k) * width,
                       state + state_at(r, t) + k * var->size + i * width, width * sizeof *state);
            }
        }
    }
    for (size_t i = 0; i < batch->count; i++) {
        size_t row = find(r, batch->keys[i]);

        r->steps[row]++;
        r->shows[row] += shows[i];
        r->clicks[row] += clicks[i];
    }
}

uint32_t ps_round_rows_steps(const ps_round_rows *r, const ps_batch_rows *batch, size_t place)
{
    return r->steps[find(r, batch->keys[place])];
}

size_t ps_round_rows_count(const ps_round_rows *r)
{
    return r->count;
}

typedef struct keyed {
    uint64_t key;
    size_t row;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *left = a, *right = b;

    return (left->key > right->key) - (left->key < right->key);
}

void ps_round_rows_contribute(const ps_round_rows *r, const ps_local *local, const ps_round *round,
                              uint32_t table, ps_met_rows *met)
{
    size_t width = r->plan->tables[table].width, n = r->count * width;
    float *p = ps_xcalloc(n + 1, sizeof *p);
    keyed *order = ps_xcalloc(r->count + 1, sizeof *order);
    const ps_stretch rows = {
        .n = n, .w = r->tables[table].w, .x = r->tables[table].x, .g = p, .p = p};

    local->contribute_rows(round, &rows);
    for (size_t i = 0; i < r->count; i++) {
        order[i] = (keyed){.key = r->keys[i], .row = i};
    }
    qsort(order, r->count, sizeof *order, by_key);
    met->count = r->count;
    for (size_t i = 0; i < r->count; i++) {
        met->keys[i] = order[i].key;
        met->shows[i] = r->shows[order[i].row];
        met->clicks[i] = r->clicks[order[i].row];
        memcpy(met->grads + i * width, p + order[i].row * width, width * sizeof *p);
    }
    free(p);
    free(order);
}

void ps_round_rows_clear(ps_round_rows *r)
{
    r->count = 0;
    empty(r);
}
