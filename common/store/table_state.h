/* SPDX-License-Identifier: Apache-2.0 */
/* table_state.h - one virtual shard of a table in the file of a store's state (store.h).
 *
 *   table      u32 width, slots, rule (table_file.h), rows, candidates, removed; that many of each
 *   row        u64 key, steps; f32 show, click; u32 age (ticks since the last push), u32 whether
 *              the next file of changes holds it; f32 (1 + slots) * width: values, then the
 *              optimizer's state
 *   candidate  u64 key; u32 count, age
 *   removed    u64 key, of a row that was removed since the last file
 */
#ifndef PS_COMMON_STORE_TABLE_STATE_H
#define PS_COMMON_STORE_TABLE_STATE_H

#include "common/base/state.h"
#include "common/store/table.h"

/* Writes a virtual shard of the table; with is_before as it was before the last push, if that is
 * kept (ps_table_keep_before). */
void ps_table_put_shard(const ps_table *table, uint32_t shard, bool is_before, ps_state_out *out);

/* Returns the table's tick; with is_before that before the last push. */
uint32_t ps_table_age(const ps_table *table, bool is_before);

/* Reads a virtual shard into a table that has no rows and candidates of it. Fails `in` if the bytes
 * are wrong; the table can then only be destroyed. */
void ps_table_take_shard(ps_table *table, uint32_t shard, ps_state_in *in);

/* Sets the table's tick. */
void ps_table_set_age(ps_table *table, uint32_t tick);

#endif
