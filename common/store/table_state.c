/* SPDX-License-Identifier: Apache-2.0 */
/* table_state.c - see table_state.h. */
#include "common/store/table_state.h"

#include "common/store/table_file_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Returns how many floats a row has, with its optimizer's state. */
static size_t float_count(const ps_table *t)
{
    return (size_t)t->conf.width * (1 + t->conf.optim->slots);
}

uint32_t ps_table_age(const ps_table *t, bool is_before)
{
    return is_before ? t->before.tick : t->tick;
}

/* The state of a table to write: as it is, or (is_before) as it was before its last push. */
typedef struct view {
    const ps_table *table;
    uint32_t shard, tick;
    bool is_before;
    ps_state_out *out; /* NULL: rows and candidates are only counted */
    uint32_t rows, candidates;
} view;

static void put_row(view *v, const table_row *row)
{
    const ps_table *t = v->table;
    row_head head = {.key = row->key,
                     .steps = row->steps,
                     .show = row->show,
                     .click = row->click,
                     .age = v->tick - row->at,
                     .flag = row->changed == t->save};

    v->rows++;
    if (v->out != NULL) {
        ps_state_put(v->out, &head, sizeof head);
        ps_state_put(v->out, row->x, float_count(t) * sizeof *row->x);
    }
}

static void put_candidate(view *v, table_candidate c)
{
    v->candidates++;
    c.at = v->tick - c.at;
    if (v->out != NULL) {
        ps_state_put(v->out, &c, sizeof c);
    }
}

static const table_earlier *earlier(const view *v, uint64_t key)
{
    return v->is_before ? table_before_find(v->table, key) : NULL;
}

static void put_rows(view *v)
{
    const table_shard *s = &v->table->shards[v->shard];
    const table_before *b = &v->table->before;

    for (uint32_t i = 0; i < s->row_count; i++) {
        const table_row *row = table_row_at(v->table, s, i);
        const table_earlier *e = earlier(v, row->key);

        if (e == NULL) {
            put_row(v, row);
        } else if (e->has_row) {
            put_row(v, table_before_row(v->table, e));
        } /* else the last push has created the row, so it was not there before */
    }
    /* Rows that ticks have removed since the push. */
    for (uint32_t i = 0; v->is_before && i < b->count; i++) {
        const table_earlier *e = &b->keys[i];

        if (e->has_row && ps_table_home(v->table, e->key) == v->shard &&
            table_find(v->table, e->key) == NULL) {
            put_row(v, table_before_row(v->table, e));
        }
    }
}

static void put_candidates(view *v)
{
    const table_shard *s = &v->table->shards[v->shard];
    const table_before *b = &v->table->before;

    for (uint32_t i = 0; i < s->candidate_count; i++) {
        if (earlier(v, s->candidates[i].key) == NULL) {
            put_candidate(v, s->candidates[i]);
        }
    }
    for (uint32_t i = 0; v->is_before && i < b->count; i++) {
        if (b->keys[i].has_candidate && ps_table_home(v->table, b->keys[i].key) == v->shard) {
            put_candidate(v, b->keys[i].candidate);
        }
    }
}

void ps_table_put_shard(const ps_table *t, uint32_t shard, bool is_before, ps_state_out *out)
{
    const table_shard *s = &t->shards[shard];
    view counted = {
        .table = t, .shard = shard, .tick = ps_table_age(t, is_before), .is_before = is_before};
    view written = counted;

    if (is_before) {
        put_rows(&counted);
        put_candidates(&counted);
    } else {
        counted.rows = s->row_count;
        counted.candidates = s->candidate_count;
    }
    ps_state_put_u32(out, t->conf.width);
    ps_state_put_u32(out, t->conf.optim->slots);
    ps_state_put_u32(out, table_file_rule(t->conf.optim));
    ps_state_put_u32(out, counted.rows);
    ps_state_put_u32(out, counted.candidates);
    ps_state_put_u32(out, s->removed_count);
    written.out = out;
    put_rows(&written);
    put_candidates(&written);
    ps_state_put(out, s->removed, s->removed_count * sizeof *s->removed);
}

static bool check_key(const ps_table *t, uint32_t shard, uint64_t key, ps_state_in *in)
{
    if (t->conf.key_end > 0 && key >= t->conf.key_end) {
        ps_state_fail(in, "key %" PRIu64 "; 0 to %" PRIu64 " are ids of table %" PRIu32, key,
                      t->conf.key_end - 1, t->conf.table);
    } else if (ps_table_home(t, key) != shard) {
        ps_state_fail(in, "key %" PRIu64 " is not of virtual shard %" PRIu32, key, shard);
    }
    return ps_state_is_ok(in);
}

/* Reads row number `place` of a virtual shard. With a fixed vocabulary the row is there already. In
 * a table that grows, only the rows before it are there. */
static void take_row(ps_table *t, uint32_t shard, uint32_t place, ps_state_in *in)
{
    const table_shard *s = &t->shards[shard];
    row_head head;
    table_row *row, *has;

    ps_state_take(in, &head, sizeof head);
    if (!ps_state_is_ok(in) || !check_key(t, shard, head.key, in)) {
        return;
    }
    has = place < s->row_count ? table_row_at(t, s, place) : NULL;
    if (head.age > t->tick || head.flag > 1 || !isfinite(head.show) || !isfinite(head.click) ||
        head.show < 0 || head.click < 0) {
        ps_state_fail(in, "age, show or click of key %" PRIu64 " cannot be", head.key);
    } else if (table_find(t, head.key) != has) {
        ps_state_fail(in, "key %" PRIu64 " comes twice", head.key);
    } else if (has == NULL && t->counters.rows >= t->conf.rows_max) {
        ps_state_fail(in, "more than %" PRIu64 " rows of table %" PRIu32, t->conf.rows_max,
                      t->conf.table);
    } else {
        row = has != NULL ? has : table_add(t, head.key);
        row->steps = head.steps;
        row->show = head.show;
        row->click = head.click;
        row->at = t->tick - head.age;
        row->changed = head.flag == 1 ? t->save : 0;
        ps_state_take(in, row->x, float_count(t) * sizeof *row->x);
    }
}

static void take_candidate(ps_table *t, uint32_t shard, ps_state_in *in)
{
    uint64_t before = t->counters.candidates;
    table_candidate c, *mine;

    ps_state_take(in, &c, sizeof c);
    if (!ps_state_is_ok(in) || !check_key(t, shard, c.key, in)) {
        return;
    }
    mine = table_candidate_of(t, c.key);
    if (mine == NULL || t->counters.candidates == before) {
        ps_state_fail(in, "key %" PRIu64 " is counted twice, or one too many of them", c.key);
    } else if (c.at > t->tick) {
        ps_state_fail(in, "age of key %" PRIu64 " cannot be", c.key);
    } else {
        mine->count = c.count;
        mine->at = t->tick - c.at;
    }
}

void ps_table_take_shard(ps_table *t, uint32_t shard, ps_state_in *in)
{
    uint32_t width = ps_state_take_u32(in), slots = ps_state_take_u32(in),
             rule = ps_state_take_u32(in), rows = ps_state_take_u32(in),
             candidates = ps_state_take_u32(in), removed = ps_state_take_u32(in);
    uint64_t key;

    if (ps_state_is_ok(in) && (width != t->conf.width || slots != t->conf.optim->slots ||
                               rule != table_file_rule(t->conf.optim))) {
        ps_state_fail(in,
                      "rows of %" PRIu32 " values with %" PRIu32
                      " of state each, of rule %08" PRIx32 "; table %" PRIu32 " has %" PRIu32
                      " values and steps by %s",
                      width, slots, rule, t->conf.table, t->conf.width, t->conf.optim->name);
    }
    if (ps_state_is_ok(in) && !table_can_restore(t, &t->shards[shard], rows)) {
        ps_state_fail(in, "%" PRIu32 " rows of virtual shard %" PRIu32 "; table %" PRIu32 " has %u",
                      rows, shard, t->conf.table, t->shards[shard].row_count);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < rows; i++) {
        take_row(t, shard, i, in);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < candidates; i++) {
        take_candidate(t, shard, in);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < removed; i++) {
        key = ps_state_take_u64(in);
        if (check_key(t, shard, key, in)) {
            table_note_removed(&t->shards[shard], key);
        }
    }
}

void ps_table_set_age(ps_table *t, uint32_t tick)
{
    t->tick = tick;
}
