/* SPDX-License-Identifier: Apache-2.0 */
/* table_rows.c - where the rows and candidates of a table lie. */
#include "common/store/table_impl.h"

#include "common/base/xalloc.h"

#include <string.h>

/* Room for one more; half as much again each time. */
static void *more(void *array, uint32_t count, uint32_t *cap, size_t bytes)
{
    if (count < *cap) {
        return array;
    }
    *cap += *cap / 2 + 8;
    return ps_xrealloc(array, *cap * bytes);
}

table_row *table_find(const ps_table *t, uint64_t key)
{
    const table_shard *s = &t->shards[ps_table_shard_of(key)];
    int64_t place = ps_keymap_find(&s->row_of, key);

    return place == PS_KEYMAP_NONE ? NULL : table_row_at(t, s, (uint32_t)place);
}

table_row *table_add(ps_table *t, uint64_t key)
{
    table_shard *s = &t->shards[ps_table_shard_of(key)];
    table_row *row;

    s->rows = more(s->rows, s->row_count, &s->row_cap, t->stride);
    row = table_row_at(t, s, s->row_count);
    memset(row, 0, t->stride);
    row->key = key;
    ps_keymap_put(&s->row_of, key, s->row_count++);
    t->counters.rows++;
    return row;
}

void table_remove(ps_table *t, table_shard *s, uint32_t place)
{
    table_row *row = table_row_at(t, s, place);
    const table_row *last = table_row_at(t, s, --s->row_count);

    ps_keymap_remove(&s->row_of, row->key);
    if (row != last) {
        memcpy(row, last, t->stride);
        ps_keymap_put(&s->row_of, row->key, place);
    }
    t->counters.rows--;
}

void table_note_removed(table_shard *s, uint64_t key)
{
    s->removed = more(s->removed, s->removed_count, &s->removed_cap, sizeof *s->removed);
    s->removed[s->removed_count++] = key;
}

table_candidate *table_candidate_of(ps_table *t, uint64_t key)
{
    table_shard *s = &t->shards[ps_table_shard_of(key)];
    int64_t place = ps_keymap_find(&s->candidate_of, key);

    if (place != PS_KEYMAP_NONE) {
        return &s->candidates[place];
    }
    if (t->counters.candidates >= t->conf.candidates_max) {
        return NULL;
    }
    s->candidates =
        more(s->candidates, s->candidate_count, &s->candidate_cap, sizeof *s->candidates);
    s->candidates[s->candidate_count] = (table_candidate){.key = key};
    ps_keymap_put(&s->candidate_of, key, s->candidate_count);
    t->counters.candidates++;
    return &s->candidates[s->candidate_count++];
}

void table_candidate_remove(ps_table *t, table_shard *s, uint32_t place)
{
    table_candidate *last = &s->candidates[--s->candidate_count];

    ps_keymap_remove(&s->candidate_of, s->candidates[place].key);
    if (&s->candidates[place] != last) {
        s->candidates[place] = *last;
        ps_keymap_put(&s->candidate_of, last->key, place);
    }
    t->counters.candidates--;
}
