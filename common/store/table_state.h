/* SPDX-License-Identifier: Apache-2.0 */
/* table_state.h - one virtual shard of a table in the file of a store's state (store.h).
 *
 * table      u32 width, slots, rule (table_file.h), number of rows of the shard, of candidates,
 *            of removed keys, of rows that follow; u64 number of the next file of changes; then the
 *            rows, candidates and removed keys
 * row        u32 place among the rows of the shard; u64 key, steps; f32 show, click; u32 age
 *            (ticks since the last push), u32 whether the next file of changes holds it; f32 (1 +
 *            slots) * width: values, then the optimizer's state
 * candidate  u64 key; u32 count, age
 * removed    u64 key of a row that was removed since the last save (table_file.h)
 *
 * A file may leave out rows that an earlier file has. It then has the rows that changed or moved to
 * another place since the earlier file was begun. When a row is removed, the last row moves to its
 * place. So all rows, in their order, are: the earlier file's rows, cut to the number of rows of
 * this file, with this file's rows put at their places. */
#ifndef PS_COMMON_STORE_TABLE_STATE_H
#define PS_COMMON_STORE_TABLE_STATE_H

#include "common/base/state.h"
#include "common/store/table.h"

/* Writes a virtual shard of the table. is_before: as it was before the last push, if the table
 * keeps that (ps_table_keep_before). `since`: a number that ps_table_mark returned, to write only
 * rows that changed or moved after it; 0, as always with is_before: all rows. */
void ps_table_put_shard(const ps_table *table, uint32_t shard, bool is_before, uint32_t since,
                        ps_state_out *out);

/* Returns the table's tick; is_before: its tick before the last push. */
uint32_t ps_table_age(const ps_table *table, bool is_before);

/* Which virtual shard is read, and how its file goes together with others. */
typedef struct ps_table_part {
    uint32_t shard, tick; /* tick: that of the table in the file */
    /* the file has all rows of the shard; false: those that differ from the rows of earlier
     * files */
    bool has_all;
    /* a later file of the shard follows: only rows are read, and table_find does not find them
     * yet */
    bool is_earlier;
} ps_table_part;

/* Reads a virtual shard. The table may have rows of earlier files of it, but no candidates. Fails
 * `in` if the bytes are wrong; the table can then only be destroyed. */
void ps_table_take_shard(ps_table *table, const ps_table_part *part, ps_state_in *in);

/* Sets the table's tick. */
void ps_table_set_age(ps_table *table, uint32_t tick);

#endif
