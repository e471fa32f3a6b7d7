/* SPDX-License-Identifier: Apache-2.0 */
/* table_rows.c - the memory of the rows and candidates of a table, and what differs for a table
 * with a fixed vocabulary. */
#include "common/store/table_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <string.h>

/* Returns the array, enlarged by half of its capacity if it has no room for one more element. */
static void *more(void *array, uint32_t count, uint32_t *cap, size_t bytes)
{
    if (count < *cap) {
        return array;
    }
    *cap += *cap / 2 + 8;
    return ps_xrealloc(array, *cap * bytes);
}

/* ---- A fixed vocabulary ---- */

static bool is_fixed(const ps_table *t)
{
    return t->conf.slice_rows > 0;
}

bool ps_table_is_followed(const ps_table *t)
{
    return is_fixed(t);
}

bool ps_table_can_have_rows(const ps_table *t, uint32_t shard)
{
    return is_fixed(t) ? t->shards[shard].row_count > 0 : t->owned[shard];
}

bool table_can_restore(const ps_table *t, const table_shard *s, uint32_t rows)
{
    return !is_fixed(t) || rows == s->row_count;
}

/* A division takes longer than the rest of finding a row. So slice_of multiplies by per_slice,
 * which is 2^SLICE_BITS / slice_rows rounded up. The quotient is exact, because key * (per_slice *
 * slice_rows - 2^SLICE_BITS) is less than key * slice_rows, and that is below 2^SLICE_BITS. */
enum { SLICE_BITS = 40 };

_Static_assert((uint64_t)PS_TABLE_KEYS_MAX *PS_TABLE_WIDTH_MAX < UINT64_C(1) << SLICE_BITS,
               "the quotient is exact");

/* Returns the number of the slice, within the table, that has the row of a key below key_end. */
static uint64_t slice_of(const ps_table *t, uint64_t key)
{
    return key * t->per_slice >> SLICE_BITS;
}

/* Returns the virtual shard of a slice; `slice` is its number within the table. */
static uint32_t home_of(const ps_table *t, uint64_t slice)
{
    return (uint32_t)((t->conf.first_slice + slice) % PS_SHARDS);
}

uint32_t ps_table_home(const ps_table *t, uint64_t key)
{
    return is_fixed(t) ? home_of(t, slice_of(t, key)) : ps_table_shard_of(key);
}

/* Returns the row of a key, or NULL. A virtual shard has its slices one after the other; they are
 * every PS_SHARDS-th slice of the table. */
static table_row *find_fixed(const ps_table *t, uint64_t key)
{
    uint64_t rows = t->conf.slice_rows, slice = slice_of(t, key);
    uint64_t place = slice / PS_SHARDS * rows + (key - slice * rows);
    const table_shard *s = &t->shards[home_of(t, slice)];

    return key < t->conf.key_end && place < s->row_count ? table_row_at(t, s, (uint32_t)place)
                                                         : NULL;
}

static table_row *find_growing(const ps_table *t, uint64_t key)
{
    const table_shard *s = &t->shards[ps_table_shard_of(key)];
    int64_t place = ps_keymap_find(&s->row_of, key);

    return place == PS_KEYMAP_NONE ? NULL : table_row_at(t, s, (uint32_t)place);
}

void table_reserve_fixed(ps_table *t)
{
    uint64_t rows = t->conf.slice_rows;

    if (!is_fixed(t)) {
        return;
    }
    assert(t->conf.key_end <= PS_TABLE_KEYS_MAX && rows <= PS_TABLE_WIDTH_MAX);
    t->per_slice = ((UINT64_C(1) << SLICE_BITS) + rows - 1) / rows;
    for (uint64_t first = 0; first < t->conf.key_end; first += rows) {
        uint32_t home = ps_table_home(t, first);

        if (t->owned[home]) {
            uint64_t left = t->conf.key_end - first;

            t->shards[home].row_cap += (uint32_t)(left < rows ? left : rows);
        }
    }
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        if (t->shards[i].row_cap > 0) {
            t->shards[i].rows = ps_xmalloc(t->shards[i].row_cap * t->stride);
        }
    }
}

void ps_table_lay(ps_table *t, uint64_t first, size_t count, const float *values)
{
    table_shard *s = &t->shards[ps_table_home(t, first)];

    assert(s->row_count + count <= s->row_cap);
    memset(s->rows + s->row_count * t->stride, 0, count * t->stride);
    for (size_t i = 0; i < count; i++) {
        table_row *row = table_row_at(t, s, s->row_count++);

        row->key = first + i;
        memcpy(row->x, values + i * t->conf.width, t->conf.width * sizeof *values);
        assert(table_find(t, row->key) == row);
    }
    t->counters.rows += count;
}

void ps_table_copy(const ps_table *t, uint64_t first, size_t count, bool is_before, float *out)
{
    for (size_t i = 0; i < count; i++) {
        const table_earlier *e = is_before ? table_before_find(t, first + i) : NULL;
        const table_row *row = e != NULL ? table_before_row(t, e) : table_find(t, first + i);

        memcpy(out + i * t->conf.width, row->x, t->conf.width * sizeof *out);
    }
}

void ps_table_copy_rows(const ps_table *t, const uint64_t *keys, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(out + i * t->conf.width, table_find(t, keys[i])->x, t->conf.width * sizeof *out);
    }
}

void ps_table_each_stepped(const ps_table *t, void (*fn)(void *arg, uint64_t key), void *arg)
{
    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        for (uint32_t place = 0; place < t->shards[i].row_count; place++) {
            const table_row *row = table_row_at(t, &t->shards[i], place);

            if (row->steps > 0) {
                fn(arg, row->key);
            }
        }
    }
}

/* ---- Rows and candidates ---- */

table_row *table_find(const ps_table *t, uint64_t key)
{
    return is_fixed(t) ? find_fixed(t, key) : find_growing(t, key);
}

table_row *table_append(ps_table *t, table_shard *s, uint64_t key)
{
    table_row *row;

    s->rows = more(s->rows, s->row_count, &s->row_cap, t->stride);
    row = table_row_at(t, s, s->row_count++);
    memset(row, 0, t->stride);
    row->key = key;
    row->mark = t->marks;
    t->counters.rows++;
    return row;
}

table_row *table_add(ps_table *t, uint64_t key)
{
    table_shard *s = &t->shards[ps_table_home(t, key)];

    ps_keymap_put(&s->row_of, key, s->row_count);
    return table_append(t, s, key);
}

void table_truncate(ps_table *t, table_shard *s, uint32_t count)
{
    if (count < s->row_count) {
        t->counters.rows -= s->row_count - count;
        s->row_count = count;
    }
}

uint32_t table_index(ps_table *t, table_shard *s)
{
    for (uint32_t i = 0; i < s->row_count && !is_fixed(t); i++) {
        uint64_t key = table_row_at(t, s, i)->key;

        if (ps_keymap_find(&s->row_of, key) != PS_KEYMAP_NONE) {
            return i;
        }
        ps_keymap_put(&s->row_of, key, i);
    }
    return s->row_count;
}

void table_remove(ps_table *t, table_shard *s, uint32_t place)
{
    table_row *row = table_row_at(t, s, place);
    const table_row *last = table_row_at(t, s, --s->row_count);

    ps_keymap_remove(&s->row_of, row->key);
    if (row != last) {
        memcpy(row, last, t->stride);
        row->mark = t->marks;
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
