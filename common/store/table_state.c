/* SPDX-License-Identifier: Apache-2.0 */
/* table_state.c - see table_state.h. */
#include "common/store/table_state.h"

#include "common/store/table_file_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Returns the number of floats of a row: its values and its optimizer's state. */
static size_t float_count(const ps_table *t)
{
    return (size_t)t->conf.width * (1 + t->conf.optim->slots);
}

uint32_t ps_table_age(const ps_table *t, bool is_before)
{
    return is_before ? t->before.tick : t->tick;
}

/* What is to be written of a table: as it is, or (is_before) as it was before its last push. */
typedef struct view {
    const ps_table *table;
    uint32_t shard, tick;
    bool is_before;
    uint32_t since;    /* only rows whose mark is `since` or later are written */
    ps_state_out *out; /* NULL: rows and candidates are only counted */
    /* numbers of rows and candidates in the shard; here: number of rows that are written */
    uint32_t rows, here, candidates;
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

    if (v->out != NULL && row->mark >= v->since) {
        ps_state_put_u32(v->out, v->rows);
        ps_state_put(v->out, &head, sizeof head);
        ps_state_put(v->out, row->x, float_count(t) * sizeof *row->x);
    }
    v->here += row->mark >= v->since;
    v->rows++;
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
    /* Rows that were there before the push, and that ticks have removed since. */
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

void ps_table_put_shard(const ps_table *t, uint32_t shard, bool is_before, uint32_t since,
                        ps_state_out *out)
{
    const table_shard *s = &t->shards[shard];
    view counted = {.table = t,
                    .shard = shard,
                    .tick = ps_table_age(t, is_before),
                    .is_before = is_before,
                    .since = since};
    view written = counted;

    if (is_before || since > 0) {
        put_rows(&counted);
        put_candidates(&counted);
    } else {
        counted.rows = counted.here = s->row_count;
        counted.candidates = s->candidate_count;
    }
    ps_state_put_u32(out, t->conf.width);
    ps_state_put_u32(out, t->conf.optim->slots);
    ps_state_put_u32(out, table_file_rule(t->conf.optim));
    ps_state_put_u32(out, counted.rows);
    ps_state_put_u32(out, counted.candidates);
    ps_state_put_u32(out, s->removed_count);
    ps_state_put_u32(out, counted.here);
    ps_state_put_u64(out, t->save);
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

/* Reads a row. Rows come in ascending order of their places. The place may already have a row: of
 * an earlier file, or, in a fixed vocabulary, the row of the same key. A table that grows may also
 * get the place after its last row. *least is the lowest place that may come. `save` is the number
 * of the next file of changes of the table that wrote the row; row->changed becomes `save` if that
 * file has to hold the row. */
static void take_row(ps_table *t, const ps_table_part *part, uint64_t save, uint32_t *least,
                     ps_state_in *in)
{
    table_shard *s = &t->shards[part->shard];
    uint32_t place = ps_state_take_u32(in);
    bool is_new = place == s->row_count;
    row_head head;
    table_row *row;

    ps_state_take(in, &head, sizeof head);
    if (!ps_state_is_ok(in) || !check_key(t, part->shard, head.key, in)) {
        return;
    }
    if (head.age > part->tick || head.flag > 1 || !isfinite(head.show) || !isfinite(head.click) ||
        head.show < 0 || head.click < 0) {
        ps_state_fail(in, "age, show or click of key %" PRIu64 " cannot be", head.key);
    } else if (place < *least || place > s->row_count ||
               (ps_table_is_followed(t) &&
                (is_new || table_row_at(t, s, place)->key != head.key))) {
        ps_state_fail(in,
                      "key %" PRIu64 " at place %" PRIu32 "; %" PRIu32 " to %" PRIu32 " may come",
                      head.key, place, *least, s->row_count);
    } else if (is_new && t->counters.rows >= t->conf.rows_max) {
        ps_state_fail(in, "more than %" PRIu64 " rows of table %" PRIu32, t->conf.rows_max,
                      t->conf.table);
    } else {
        row = is_new ? table_append(t, s, head.key) : table_row_at(t, s, place);
        row->key = head.key;
        row->steps = head.steps;
        row->show = head.show;
        row->click = head.click;
        row->at = part->tick - head.age;
        row->changed = head.flag == 1 ? save : 0;
        *least = place + 1;
        ps_state_take(in, row->x, float_count(t) * sizeof *row->x);
    }
}

/* Ends reading the rows of a virtual shard: enters them into the index, and checks their keys and
 * ages. Rows that the next file of changes of the writing table (number `save`) had to hold become
 * rows for this table's next file of changes. */
static void settle_rows(ps_table *t, uint32_t shard, uint64_t save, ps_state_in *in)
{
    table_shard *s = &t->shards[shard];
    uint32_t twice = table_index(t, s);

    if (twice < s->row_count) {
        ps_state_fail(in, "key %" PRIu64 " comes twice", table_row_at(t, s, twice)->key);
    }
    for (uint32_t i = 0; i < s->row_count; i++) {
        table_row *row = table_row_at(t, s, i);

        if (row->at > t->tick) {
            ps_state_fail(in, "key %" PRIu64 " is of a later tick", row->key);
        }
        row->changed = row->changed == save ? t->save : 0;
    }
}

static void take_candidate(ps_table *t, const ps_table_part *part, ps_state_in *in)
{
    uint64_t before = t->counters.candidates;
    table_candidate c, *mine;

    ps_state_take(in, &c, sizeof c);
    if (!ps_state_is_ok(in) || !check_key(t, part->shard, c.key, in)) {
        return;
    }
    mine = table_candidate_of(t, c.key);
    if (mine == NULL || t->counters.candidates == before) {
        ps_state_fail(in, "key %" PRIu64 " is counted twice, or one too many of them", c.key);
    } else if (c.at > part->tick) {
        ps_state_fail(in, "age of key %" PRIu64 " cannot be", c.key);
    } else {
        mine->count = c.count;
        mine->at = part->tick - c.at;
    }
}

void ps_table_take_shard(ps_table *t, const ps_table_part *part, ps_state_in *in)
{
    table_shard *s = &t->shards[part->shard];
    uint32_t width = ps_state_take_u32(in), slots = ps_state_take_u32(in),
             rule = ps_state_take_u32(in), rows = ps_state_take_u32(in),
             candidates = ps_state_take_u32(in), removed = ps_state_take_u32(in),
             here = ps_state_take_u32(in), least = 0;
    uint64_t save = ps_state_take_u64(in), key;

    if (ps_state_is_ok(in) && (width != t->conf.width || slots != t->conf.optim->slots ||
                               rule != table_file_rule(t->conf.optim))) {
        ps_state_fail(in,
                      "rows of %" PRIu32 " values with %" PRIu32
                      " of state each, of rule %08" PRIx32 "; table %" PRIu32 " has %" PRIu32
                      " values and steps by %s",
                      width, slots, rule, t->conf.table, t->conf.width, t->conf.optim->name);
    }
    if (ps_state_is_ok(in) && !table_can_restore(t, s, rows)) {
        ps_state_fail(in, "%" PRIu32 " rows of virtual shard %" PRIu32 "; table %" PRIu32 " has %u",
                      rows, part->shard, t->conf.table, s->row_count);
    }
    if (ps_state_is_ok(in) && (here > rows || (part->has_all && here < rows) || save == 0)) {
        ps_state_fail(in, "%" PRIu32 " of %" PRIu32 " rows, before file %" PRIu64 " of changes",
                      here, rows, save);
    }
    if (ps_state_is_ok(in) && !ps_table_is_followed(t)) {
        table_truncate(t, s, part->has_all ? 0 : rows);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < here; i++) {
        take_row(t, part, save, &least, in);
    }
    if (ps_state_is_ok(in) && s->row_count != rows) {
        ps_state_fail(in, "%" PRIu32 " rows of %" PRIu32 " are in no file", s->row_count, rows);
    }
    if (part->is_earlier) {
        (void)ps_state_view(in, (size_t)candidates * sizeof(table_candidate));
        (void)ps_state_view(in, (size_t)removed * sizeof *s->removed);
        return;
    }
    if (ps_state_is_ok(in)) {
        settle_rows(t, part->shard, save, in);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < candidates; i++) {
        take_candidate(t, part, in);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < removed; i++) {
        key = ps_state_take_u64(in);
        if (check_key(t, part->shard, key, in)) {
            table_note_removed(s, key);
        }
    }
}

void ps_table_set_age(ps_table *t, uint32_t tick)
{
    t->tick = tick;
}
