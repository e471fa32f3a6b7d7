/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h: pushes, pulls and ageing. */
#include "common/store/table_impl.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a table draws for, as a part of the draws' keys: initial values, admission by
 * probability. */
enum { DRAWS_VALUES, DRAWS_ADMISSION };

ps_table_conf ps_table_conf_default(uint32_t width, const ps_optim *optim)
{
    return (ps_table_conf){
        .width = width,
        .init_bound = 0.01f,
        .optim = optim,
        .optim_params = ps_params_default(optim->params),
        .admit_count = 1,
        .admit_probability = 1,
        .decay = 0.98f,
        .unclicked = 0.1f,
        .clicked = 1.0f,
        .unseen_max = PS_TABLE_UNSEEN_MAX,
        .rows_max = 32 << 20,
        .candidates_max = 32 << 20,
    };
}

/* ---- Decrements ---- */

static const ps_param no_params[] = {{0}};

static void increment_as_is(const ps_params *params, uint64_t t, const float *g, const float *w,
                            float *state, float *d, size_t n)
{
    (void)params;
    (void)t;
    (void)w;
    (void)state;
    if (d != g) {
        memcpy(d, g, n * sizeof *d);
    }
}

static void step_as_is(const ps_params *params, uint64_t t, const float *g, const float *w,
                       float *state, float *to, size_t n)
{
    (void)params;
    (void)t;
    (void)state;
    for (size_t i = 0; i < n; i++) {
        to[i] = w[i] - g[i];
    }
}

const ps_optim ps_table_as_is = {
    .name = "",
    .summary = "w - x",
    .params = no_params,
    .rests_at_zero = true,
    .increment = increment_as_is,
    .step = step_as_is,
};

uint32_t ps_table_shard_of(uint64_t key)
{
    return (uint32_t)(ps_key_hash(key) >> 56);
}

size_t ps_table_row_bytes(uint32_t width, uint32_t slots)
{
    return (sizeof(table_row) + (size_t)width * (1 + slots) * sizeof(float) + 7) / 8 * 8;
}

ps_table *ps_table_create(const ps_table_conf *conf)
{
    ps_table *t = ps_xcalloc(1, sizeof *t);

    assert(conf->width >= 1 && conf->width <= PS_TABLE_WIDTH_MAX);
    assert(conf->admit_count > 0 && conf->unseen_max <= PS_TABLE_UNSEEN_MAX);
    assert(conf->optim->slots <= PS_TABLE_SLOTS_MAX);
    assert(conf->rows_max < UINT32_MAX && conf->candidates_max < UINT32_MAX);
    t->conf = *conf;
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        t->owned[i] = conf->owned == NULL || conf->owned[i];
    }
    t->conf.owned = t->owned;
    t->stride = ps_table_row_bytes(conf->width, conf->optim->slots);
    t->admit_key = ps_draw_key(conf->seed, PS_DRAW_ROWS, conf->table, DRAWS_ADMISSION, 0);
    t->factor = ps_xcalloc((size_t)conf->unseen_max + 1, sizeof *t->factor);
    t->factor[0] = 1.0f;
    for (uint32_t i = 1; i <= conf->unseen_max; i++) {
        t->factor[i] = t->factor[i - 1] * conf->decay;
    }
    t->save = 1;
    table_reserve_fixed(t);
    return t;
}

void ps_table_destroy(ps_table *table)
{
    if (table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        table_shard *s = &table->shards[i];

        ps_keymap_fini(&s->row_of);
        ps_keymap_fini(&s->candidate_of);
        free(s->rows);
        free(s->candidates);
        free(s->removed);
    }
    table_before_fini(table);
    free(table->factor);
    free(table);
}

/* ---- Admission and initial values of a key ---- */

static void draw_values(const ps_table *t, uint64_t key, float *x)
{
    uint64_t draws = ps_draw_key(t->conf.seed, PS_DRAW_ROWS, t->conf.table, DRAWS_VALUES, key);

    for (uint32_t i = 0; i < t->conf.width; i++) {
        x[i] = (float)((2.0 * ps_draw_unit(draws, i) - 1.0) * (double)t->conf.init_bound);
    }
}

/* Returns whether the key may have a row although nothing was pushed to it yet. */
static bool is_in(const ps_table *t, uint64_t key)
{
    switch (t->conf.admission) {
    case PS_ADMIT_ALL:
        return true;
    case PS_ADMIT_PROBABILITY:
        return ps_draw_unit(t->admit_key, key) < t->conf.admit_probability;
    case PS_ADMIT_COUNT:
        return false;
    }
    return false;
}

/* Under PS_ADMIT_COUNT, counts a push to a key without a row and returns whether the key gets a row
 * now. Under other admissions returns false and counts nothing. */
static bool count_candidate(ps_table *t, uint64_t key)
{
    table_candidate *c;

    if (t->conf.admission != PS_ADMIT_COUNT) {
        return false;
    }
    c = table_candidate_of(t, key);
    if (c == NULL) {
        t->counters.uncounted++;
        return false;
    }
    c->at = t->tick;
    if (++c->count < t->conf.admit_count) {
        return false;
    }
    table_candidate_remove(
        t, &t->shards[ps_table_shard_of(key)],
        (uint32_t)ps_keymap_find(&t->shards[ps_table_shard_of(key)].candidate_of, key));
    return true;
}

ps_status ps_table_check_keys(const ps_table *t, const uint64_t *keys, size_t count)
{
    if (count > PS_TABLE_KEYS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%zu keys; at most %d are allowed", count,
                       PS_TABLE_KEYS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && keys[i] <= keys[i - 1]) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "keys[%zu]: %" PRIu64 " behind %" PRIu64 "; they must ascend", i,
                           keys[i], keys[i - 1]);
        }
        if (t->conf.key_end > 0 && keys[i] >= t->conf.key_end) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "keys[%zu]: %" PRIu64 "; 0 to %" PRIu64 " are ids of table %" PRIu32, i,
                           keys[i], t->conf.key_end - 1, t->conf.table);
        }
        if (!t->owned[ps_table_home(t, keys[i])]) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "keys[%zu]: %" PRIu64 " is of virtual shard %" PRIu32
                           ", which is not of this server",
                           i, keys[i], ps_table_home(t, keys[i]));
        }
    }
    return ps_ok();
}

uint64_t ps_table_key_end(const ps_table *table)
{
    return table->conf.key_end;
}

uint32_t ps_table_width(const ps_table *table)
{
    return table->conf.width;
}

/* ---- Pushes ---- */

/* Returns whether a push to this key, which has no row, creates one. */
static bool gets_row(const ps_table *t, uint64_t key)
{
    const table_shard *s = &t->shards[ps_table_shard_of(key)];
    int64_t place;

    if (t->conf.admission != PS_ADMIT_COUNT) {
        return is_in(t, key);
    }
    place = ps_keymap_find(&s->candidate_of, key);
    return t->conf.admit_count == 1 ||
           (place != PS_KEYMAP_NONE && s->candidates[place].count + 1 >= t->conf.admit_count);
}

static ps_status check_room(const ps_table *t, const ps_table_push *push)
{
    uint64_t rows = t->counters.rows;

    for (size_t i = 0; i < push->count && rows + (push->count - i) > t->conf.rows_max; i++) {
        rows += table_find(t, push->keys[i]) == NULL && gets_row(t, push->keys[i]);
    }
    if (rows > t->conf.rows_max) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "the table would have %" PRIu64 " rows; at most %" PRIu64 " are allowed",
                       rows, t->conf.rows_max);
    }
    return ps_ok();
}

/* Decays show and click of a row to the present tick and adds those of element i of the push, which
 * are 1 and 0 if the push names none. */
static void show_row(ps_table *t, table_row *row, const ps_table_push *push, size_t i)
{
    float factor = table_factor(t, row);

    row->show = row->show * factor + (push->shows == NULL ? 1.0f : push->shows[i]);
    row->click = row->click * factor + (push->clicks == NULL ? 0.0f : push->clicks[i]);
    row->at = t->tick;
    row->changed = t->save;
    row->mark = t->marks;
}

/* Steps a row on the gradient g by the table's rule, with the penalties of the push's descent if it
 * has one. push->scale (0 counts as 1) multiplies the increment, not the gradient. */
static void step_row(const ps_table *t, table_row *row, const ps_table_push *push, const float *g)
{
    const ps_table_conf *conf = &t->conf;
    const ps_params *params = push->params != NULL ? push->params : &conf->optim_params;
    uint64_t steps = push->t > 0 ? push->t : row->steps + 1;
    float d[PS_TABLE_WIDTH_MAX];

    if (push->descent != NULL) {
        g = ps_descent_penalised(push->descent, push->share, g, row->x, d, conf->width);
    }
    row->steps++;
    if (push->scale == 0.0f || push->scale == 1.0f) {
        conf->optim->step(params, steps, g, row->x, row->x + conf->width, row->x, conf->width);
        return;
    }
    conf->optim->increment(params, steps, g, row->x, row->x + conf->width, d, conf->width);
    for (uint32_t i = 0; i < conf->width; i++) {
        row->x[i] -= d[i] * push->scale;
    }
}

static void push_row(ps_table *t, const ps_table_push *push, size_t i)
{
    uint64_t key = push->keys[i];
    table_row *row = table_find(t, key);
    /* Whether the worker computed the gradient with the row's values. If this push creates the row
     * by its count, the worker had zeros: that gradient is not for the initial values. */
    bool is_whole = true;

    table_before_note(t, key, row);
    if (row == NULL && !is_in(t, key)) {
        t->counters.refused++;
        if (!count_candidate(t, key)) {
            return;
        }
        is_whole = false;
    }
    if (row == NULL) {
        row = table_add(t, key);
        row->at = t->tick;
        draw_values(t, key, row->x);
        t->counters.created++;
    }
    show_row(t, row, push, i);
    if (is_whole) {
        step_row(t, row, push, push->grads + i * t->conf.width);
        t->counters.applied++;
    }
}

ps_status ps_table_push_rows(ps_table *table, const ps_table_push *push)
{
    ps_status st = check_room(table, push);

    if (ps_is_ok(&st)) {
        table_before_begin(table);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < push->count; i++) {
        push_row(table, push, i);
    }
    return st;
}

/* ---- Pulls ---- */

ps_status ps_table_pull_rows(const ps_table *table, const uint64_t *keys, size_t count, float *out)
{
    ps_status st = ps_table_check_keys(table, keys, count);
    uint32_t width = table->conf.width;

    for (size_t i = 0; ps_is_ok(&st) && i < count; i++) {
        const table_row *row = table_find(table, keys[i]);

        if (row != NULL) {
            memcpy(out + i * width, row->x, width * sizeof *out);
        } else if (is_in(table, keys[i])) {
            draw_values(table, keys[i], out + i * width);
        } else {
            memset(out + i * width, 0, width * sizeof *out);
        }
    }
    return st;
}

/* ---- Ageing ---- */

static bool is_stale(const ps_table *t, const table_row *row)
{
    uint32_t age = t->tick - row->at;
    float factor, show, click;

    if (age > t->conf.unseen_max) {
        return true;
    }
    factor = table_factor(t, row);
    show = row->show * factor;
    click = row->click * factor;
    return t->conf.unclicked * (show - click) + t->conf.clicked * click < t->conf.least_score;
}

uint32_t ps_table_mark(ps_table *table)
{
    return ++table->marks;
}

uint64_t ps_table_shrink(ps_table *table)
{
    uint64_t before = table->counters.removed;
    uint32_t listed = table->before.count;

    table->tick++;
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        table_shard *s = &table->shards[i];

        for (uint32_t place = 0; place < s->row_count;) {
            const table_row *row = table_row_at(table, s, place);

            if (!is_stale(table, row)) {
                place++;
                continue;
            }
            if (table->conf.saves_changes) {
                table_note_removed(s, row->key);
            }
            table_before_note_removed(table, row->key, row, listed);
            /* the last row moves to this place, and is looked at next */
            table_remove(table, s, place);
            table->counters.removed++;
        }
        for (uint32_t place = 0; place < s->candidate_count;) {
            if (table->tick - s->candidates[place].at > table->conf.unseen_max) {
                table_before_note_removed(table, s->candidates[place].key, NULL, listed);
                table_candidate_remove(table, s, place);
            } else {
                place++;
            }
        }
    }
    table_before_sort(table, listed);
    return table->counters.removed - before;
}

bool ps_table_shown(const ps_table *table, uint64_t key, float *show, float *click)
{
    const table_row *row = table_find(table, key);

    if (row != NULL) {
        *show = row->show * table_factor(table, row);
        *click = row->click * table_factor(table, row);
    }
    return row != NULL;
}

void ps_table_counters_add(ps_table_counters *sum, const ps_table_counters *c)
{
    sum->rows += c->rows;
    sum->candidates += c->candidates;
    sum->bytes += c->bytes;
    sum->ticks = c->ticks > sum->ticks ? c->ticks : sum->ticks;
    sum->applied += c->applied;
    sum->created += c->created;
    sum->removed += c->removed;
    sum->refused += c->refused;
    sum->uncounted += c->uncounted;
}

ps_table_counters ps_table_count(const ps_table *table)
{
    ps_table_counters c = table->counters;

    c.ticks = table->tick;
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        const table_shard *s = &table->shards[i];

        c.bytes += s->row_cap * table->stride + s->candidate_cap * sizeof *s->candidates +
                   s->removed_cap * sizeof *s->removed +
                   (s->row_of.cap + s->candidate_of.cap) * sizeof(ps_keymap_entry);
    }
    return c;
}
