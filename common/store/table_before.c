/* SPDX-License-Identifier: Apache-2.0 */
/* table_before.c - what rows were before the last push to a table and the ticks after it.
 *
 * When a worker or a server is lost within a clock, the clock is repeated. Slices that were stepped
 * on it stay as they are (shard_before.c). Rows are put back: a step touches few of them, so copies
 * of these cost little, and all servers then have their rows at the same clock.
 *
 * A push names its keys in ascending order, so the list of noted keys ascends. A tick appends the
 * rows and candidates that it removes, and sorts the list. */
#include "common/store/table_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

void ps_table_keep_before(ps_table *t)
{
    t->before.is_kept = true;
}

void table_before_begin(ps_table *t)
{
    t->before.count = t->before.row_count = 0;
    t->before.tick = t->tick;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const table_earlier *)a)->key, y = ((const table_earlier *)b)->key;

    return (x > y) - (x < y);
}

const table_earlier *table_before_find(const ps_table *t, uint64_t key)
{
    const table_earlier wanted = {.key = key};

    return t->before.count == 0
               ? NULL
               : bsearch(&wanted, t->before.keys, t->before.count, sizeof wanted, compare);
}

const table_row *table_before_row(const ps_table *t, const table_earlier *e)
{
    return (const table_row *)(const void *)(t->before.rows + t->stride * e->row);
}

/* Appends an empty element for `key` to the list. The list must not have the key. */
static table_earlier *add(table_before *b, uint64_t key)
{
    if (b->count == b->cap) {
        b->cap += b->cap / 2 + 64;
        b->keys = ps_xrealloc(b->keys, b->cap * sizeof *b->keys);
    }
    b->keys[b->count] = (table_earlier){.key = key};
    return &b->keys[b->count++];
}

void table_before_note(ps_table *t, uint64_t key, const table_row *row)
{
    table_before *b = &t->before;
    const table_shard *s;
    table_earlier *e;
    int64_t place;

    if (!b->is_kept) {
        return;
    }
    e = add(b, key);
    if (row != NULL) {
        if (b->row_count == b->row_cap) {
            b->row_cap += b->row_cap / 2 + 64;
            b->rows = ps_xrealloc(b->rows, b->row_cap * t->stride);
        }
        e->has_row = true;
        e->row = b->row_count++;
        memcpy(b->rows + t->stride * e->row, row, t->stride);
    } else if (t->conf.admission == PS_ADMIT_COUNT) {
        s = &t->shards[ps_table_home(t, key)];
        place = ps_keymap_find(&s->candidate_of, key);
        e->has_candidate = place != PS_KEYMAP_NONE;
        e->candidate = e->has_candidate ? s->candidates[place] : (table_candidate){0};
    }
}

void table_before_note_removed(ps_table *t, uint64_t key, const table_row *row, uint32_t listed)
{
    table_before *b = &t->before;
    const table_earlier wanted = {.key = key};

    if (b->is_kept &&
        (listed == 0 || bsearch(&wanted, b->keys, listed, sizeof wanted, compare) == NULL)) {
        table_before_note(t, key, row);
    }
}

void table_before_sort(ps_table *t, uint32_t listed)
{
    if (t->before.count > listed) {
        qsort(t->before.keys, t->before.count, sizeof *t->before.keys, compare);
    }
}

void table_before_fini(ps_table *t)
{
    free(t->before.keys);
    free(t->before.rows);
}
