/* SPDX-License-Identifier: Apache-2.0 */
/* table_state.h - one virtual shard of a table in the file of a store's state (store.h).
 *
 *   table      u32 width, slots, rule (table_file.h), rows of the table, candidates, removed, rows
 *              that follow; u64 number of the next file of changes; that many of each
 *   row        u32 place among the rows of the table; u64 key, steps; f32 show, click; u32 age
 *              (ticks since the last push), u32 whether the next file of changes holds it; f32 (1 +
 *              slots) * width: values, then the optimizer's state
 *   candidate  u64 key; u32 count, age
 *   removed    u64 key, of a row that was removed since the last file
 *
 * A file may leave out rows that an earlier one has: then it has those that changed or moved to
 * another place since the earlier one was begun. A row that is removed leaves its place to the last
 * one. So the earlier file's rows, cut to the number of rows, with those of the file at their
 * places, are all rows in their order.
 */
#ifndef PS_COMMON_STORE_TABLE_STATE_H
#define PS_COMMON_STORE_TABLE_STATE_H

#include "common/base/state.h"
#include "common/store/table.h"

/* Writes a virtual shard of the table; with is_before as it was before the last push, if that is
 * kept (ps_table_keep_before). `since`: only the rows that changed or moved since ps_table_mark
 * returned this number; 0: all, as always with is_before. */
void ps_table_put_shard(const ps_table *table, uint32_t shard, bool is_before, uint32_t since,
                        ps_state_out *out);

/* Returns the table's tick; with is_before that before the last push. */
uint32_t ps_table_age(const ps_table *table, bool is_before);

/* What is read of a file's virtual shard. */
typedef struct ps_table_part {
    uint32_t shard, tick; /* tick of the table in the file */
    bool has_all;         /* the file has all rows; false: those that differ from the ones here */
    bool is_earlier;      /* a later file follows: only rows are read, and cannot be found yet */
} ps_table_part;

/* Reads a virtual shard into a table that has only rows of earlier files of it, and no candidates.
 * Fails `in` if the bytes are wrong; the table can then only be destroyed. */
void ps_table_take_shard(ps_table *table, const ps_table_part *part, ps_state_in *in);

/* Sets the table's tick. */
void ps_table_set_age(ps_table *table, uint32_t tick);

#endif
