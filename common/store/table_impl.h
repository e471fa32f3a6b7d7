/* SPDX-License-Identifier: Apache-2.0 */
/* table_impl.h - the private structs of a table; for table*.c only. */
#ifndef PS_COMMON_STORE_TABLE_IMPL_H
#define PS_COMMON_STORE_TABLE_IMPL_H

#include "common/store/keymap.h"
#include "common/store/table.h"

/* A row with its values: `stride` bytes in all. Show and click are not decayed since tick `at`. */
typedef struct table_row {
    uint64_t key;
    uint64_t steps; /* number of steps of this row */
    /* number of the save of changes that has to write the row; a smaller number than table.save:
     * none */
    uint64_t changed;
    float show, click;
    uint32_t at;   /* tick of the last push */
    uint32_t mark; /* value of table.marks when the row last changed or moved to another place */
    float x[];     /* (D) values, then (slots, D) of state */
} table_row;

/* A key without a row whose pushes are counted until it gets one. */
typedef struct table_candidate {
    uint64_t key;
    uint32_t count, at;
} table_candidate;

/* The rows and candidates of one virtual shard. */
typedef struct table_shard {
    uint8_t *rows; /* (row_cap) of `stride` bytes */
    uint32_t row_count, row_cap;
    ps_keymap row_of;
    table_candidate *candidates;
    uint32_t candidate_count, candidate_cap;
    ps_keymap candidate_of;
    /* keys of the rows that were removed since the last save, which the next save of changes
     * lists */
    uint64_t *removed;
    uint32_t removed_count, removed_cap;
} table_shard;

/* What the table had for a key before the last push. */
typedef struct table_earlier {
    uint64_t key;
    bool has_row, has_candidate;
    uint32_t row; /* if has_row: index in table_before.rows */
    table_candidate candidate;
} table_earlier;

/* What the table had before the last push, of the keys that this push or a later tick has
 * changed. */
typedef struct table_before {
    bool is_kept;        /* the table keeps all this (ps_table_keep_before) */
    uint32_t tick;       /* the table's tick before the last push */
    table_earlier *keys; /* (count) ascending */
    uint32_t count, cap;
    uint8_t *rows; /* (row_count) of `stride` bytes */
    uint32_t row_count, row_cap;
} table_before;

struct ps_table {
    ps_table_conf conf;
    bool owned[PS_SHARDS];
    float *factor;      /* (unseen_max + 1): factor[age] is decay to the power of age */
    size_t stride;      /* bytes of a row */
    uint64_t admit_key; /* key of the draws that decide about admission by probability */
    uint64_t save;      /* number of the next save of changes, from 1 */
    uint64_t per_slice; /* for a fixed vocabulary: 2^40 / slice_rows, rounded up */
    uint32_t tick;
    uint32_t marks; /* number of marks that were set so far (ps_table_mark) */
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

    /* a row of this age is removed by the next tick */
    return age <= t->conf.unseen_max ? t->factor[age] : 0.0f;
}

/* Allocates room for all rows of a fixed vocabulary in the table's virtual shards, so that adding
 * them moves no row. */
void table_reserve_fixed(ps_table *t);
/* Returns whether a saved virtual shard with `rows` rows can be one of this table. A table that
 * grows can have any number of rows; a fixed vocabulary has exactly its own. */
bool table_can_restore(const ps_table *t, const table_shard *s, uint32_t rows);
/* Returns the row of a key, or NULL. */
table_row *table_find(const ps_table *t, uint64_t key);
/* Adds a row for a key that has none, and returns it. All its values, state and counts are 0. */
table_row *table_add(ps_table *t, uint64_t key);
/* Appends a row for a key to a virtual shard, but does not enter it into the index: table_find
 * finds it only after table_index. */
table_row *table_append(ps_table *t, table_shard *s, uint64_t key);
/* Removes the last rows of a virtual shard until it has `count`. The index must not have these
 * rows. */
void table_truncate(ps_table *t, table_shard *s, uint32_t count);
/* Builds the index of a virtual shard, so that table_find finds its rows. Returns the place of the
 * first row whose key another row has too; row_count: there is none. */
uint32_t table_index(ps_table *t, table_shard *s);
/* Removes the row at `place`. The last row of the virtual shard moves there. */
void table_remove(ps_table *t, table_shard *s, uint32_t place);
/* Returns the candidate of a key, and adds one if there is none; NULL if there are candidates_max
 * already. */
table_candidate *table_candidate_of(ps_table *t, uint64_t key);
void table_candidate_remove(ps_table *t, table_shard *s, uint32_t place);
/* Notes the key of a removed row for the next save of changes. */
void table_note_removed(table_shard *s, uint64_t key);

/* table_before.c */

/* Forgets what was noted since the last push began, because a new push begins. */
void table_before_begin(ps_table *t);
/* Notes what the table has of a key of the push, before the push changes it: `row`, or NULL if it
 * has none, and its candidate. The keys must come in ascending order. Does nothing unless the table
 * keeps this. */
void table_before_note(ps_table *t, uint64_t key, const table_row *row);
/* Notes what the table has of a key that a tick removes, if the table keeps this. `listed`: number
 * of keys that were noted when the tick began; a key that is among them is not noted again. */
void table_before_note_removed(ps_table *t, uint64_t key, const table_row *row, uint32_t listed);
/* Sorts the noted keys at the end of a tick; the first `listed` of them ascend already. */
void table_before_sort(ps_table *t, uint32_t listed);
/* Returns what the table had for a key before the last push; NULL: the same that it has now. */
const table_earlier *table_before_find(const ps_table *t, uint64_t key);
/* Returns the earlier row of an element with has_row. */
const table_row *table_before_row(const ps_table *t, const table_earlier *e);
void table_before_fini(ps_table *t);

#endif
