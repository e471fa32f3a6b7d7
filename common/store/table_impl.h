/* SPDX-License-Identifier: Apache-2.0 */
/* table_impl.h - the private structs of a table; for table*.c only. */
#ifndef PS_COMMON_STORE_TABLE_IMPL_H
#define PS_COMMON_STORE_TABLE_IMPL_H

#include "common/store/keymap.h"
#include "common/store/table.h"

/* A row with its values: `stride` bytes. Show and click are those of tick `at`. */
typedef struct table_row {
    uint64_t key;
    uint64_t steps;   /* steps of this row */
    uint64_t changed; /* number of the save that writes it next */
    float show, click;
    uint32_t at;   /* tick of the last push */
    uint32_t mark; /* marks that were set before the row last changed or moved (ps_table_mark) */
    float x[];     /* (D) values, then (slots, D) of state */
} table_row;

typedef struct table_candidate {
    uint64_t key;
    uint32_t count, at;
} table_candidate;

/* A virtual shard. */
typedef struct table_shard {
    uint8_t *rows; /* (row_cap) of `stride` bytes */
    uint32_t row_count, row_cap;
    ps_keymap row_of;
    table_candidate *candidates;
    uint32_t candidate_count, candidate_cap;
    ps_keymap candidate_of;
    uint64_t *removed; /* keys of rows that were removed since the last save */
    uint32_t removed_count, removed_cap;
} table_shard;

/* What was there of a key before. */
typedef struct table_earlier {
    uint64_t key;
    bool has_row, has_candidate;
    uint32_t row; /* place in table_before.rows, with has_row */
    table_candidate candidate;
} table_earlier;

/* What keys were before the last push, of those that it or a tick after it has changed. */
typedef struct table_before {
    bool is_kept;
    uint32_t tick;       /* of the table then */
    table_earlier *keys; /* (count) ascending */
    uint32_t count, cap;
    uint8_t *rows; /* (row_count) of `stride` bytes */
    uint32_t row_count, row_cap;
} table_before;

struct ps_table {
    ps_table_conf conf;
    bool owned[PS_SHARDS];
    float *factor;      /* (unseen_max + 1): decay to the power of an age */
    size_t stride;      /* bytes of a row */
    uint64_t admit_key; /* of the draws that let keys in */
    uint64_t save;      /* number of the next save, from 1 */
    uint64_t per_slice; /* of a fixed vocabulary: 2^40 / slice_rows, rounded up */
    uint32_t tick;
    uint32_t marks; /* set so far */
    ps_table_counters counters;
    table_before before;
    table_shard shards[PS_SHARDS];
};

static inline table_row *table_row_at(const ps_table *t, const table_shard *s, uint32_t place)
{
    return (table_row *)(void *)(s->rows + t->stride * place);
}

/* Returns the factor that decays show and click of a row to the present tick. */
static inline float table_factor(const ps_table *t, const table_row *row)
{
    uint32_t age = t->tick - row->at;

    /* so old that the next tick removes it */
    return age <= t->conf.unseen_max ? t->factor[age] : 0.0f;
}

/* Allocates room for all rows of a fixed vocabulary in the table's virtual shards, so that adding
 * them moves no row. */
void table_reserve_fixed(ps_table *t);
/* Returns whether a saved virtual shard with so many rows can be of this table. A table that grows
 * can have any number of rows, a fixed vocabulary only its own. */
bool table_can_restore(const ps_table *t, const table_shard *s, uint32_t rows);
/* Returns the row of a key, or NULL. */
table_row *table_find(const ps_table *t, uint64_t key);
/* Adds a row for a key that has none. All its values, state and counts are 0. */
table_row *table_add(ps_table *t, uint64_t key);
/* Adds a row for a key, but no way to find it: table_index does that for all rows of a virtual
 * shard. */
table_row *table_append(ps_table *t, table_shard *s, uint64_t key);
/* Removes the last rows, which cannot be found, of a virtual shard until it has `count`. */
void table_truncate(ps_table *t, table_shard *s, uint32_t count);
/* Has the rows of a virtual shard be found by their keys. Returns the place of the first row whose
 * key another one has; row_count: there is none. */
uint32_t table_index(ps_table *t, table_shard *s);
/* Removes the row at `place`. The last row of the virtual shard moves there. */
void table_remove(ps_table *t, table_shard *s, uint32_t place);
/* Returns the candidate of a key, new or not; NULL if there are too many. */
table_candidate *table_candidate_of(ps_table *t, uint64_t key);
void table_candidate_remove(ps_table *t, table_shard *s, uint32_t place);
/* Notes a removed key for the next save of changes. */
void table_note_removed(table_shard *s, uint64_t key);

/* table_before.c */

/* Forgets what was before: a push begins. */
void table_before_begin(ps_table *t);
/* Notes what is there of a key of the push, in their order, before it changes; its row, or NULL.
 * Does nothing unless that is kept. */
void table_before_note(ps_table *t, uint64_t key, const table_row *row);
/* Does the same for a key that a tick removes. `listed` keys were noted when the tick began; one of
 * these is not noted again. */
void table_before_note_removed(ps_table *t, uint64_t key, const table_row *row, uint32_t listed);
/* Sorts the list at the end of such a tick. */
void table_before_sort(ps_table *t, uint32_t listed);
/* Returns what was there of a key; NULL: what is there now. */
const table_earlier *table_before_find(const ps_table *t, uint64_t key);
/* Returns the row that was there, of an element with has_row. */
const table_row *table_before_row(const ps_table *t, const table_earlier *e);
void table_before_fini(ps_table *t);

#endif
