/* SPDX-License-Identifier: Apache-2.0 */
/* table_file.h - a table as a file, whole or what has changed since the last one.
 *
 * Little-endian throughout; H is XXH3-64 of the part before it.
 *
 *   file       head, sections
 *   head       "PSGDTAB1"; u32 width, slots, table, tick, kind (0 whole, 1 changes),
 *              sections, rule (XXH3-64 of the optimizer's name, its lower half), 0; 256 bits:
 *              which virtual shards were there, bit s % 8 of byte s / 8; u64 H
 *   section    u32 virtual shard, rows, removed, candidates; that many of each;
 *              u64 H
 *   row        u64 key, steps; f32 show, click; u32 age (ticks since the last push),
 *              u32 0; f32 (1 + slots) * width: values, then the optimizer's state
 *   removed    u64 key; only among changes
 *   candidate  u64 key; u32 count, age; only in a whole file
 *
 * Sections ascend, rows of one are in no order. The first values of rows are not
 * in the file: they follow from seed and key.
 */
#ifndef PS_COMMON_STORE_TABLE_FILE_H
#define PS_COMMON_STORE_TABLE_FILE_H

#include "common/store/table.h"

/* Most bytes of a file: as many as a server can be expected to have room for. */
#define PS_TABLE_FILE_MAX (UINT64_C(64) << 30)

typedef enum ps_table_kind { PS_TABLE_WHOLE, PS_TABLE_CHANGES } ps_table_kind;

enum { PS_TABLE_HEAD_BYTES = 80, PS_TABLE_SLOTS_MAX = 8 };

typedef struct ps_table_head {
    uint32_t width, slots, rule, table, tick, sections;
    ps_table_kind kind;
    bool here[PS_SHARDS]; /* what is in none of the sections has no rows */
} ps_table_head;

/* May a file have so many bytes? INVALID_ARGUMENT: none, or more than PS_TABLE_FILE_MAX. */
PS_MUST_USE ps_status ps_table_check_size(uint64_t bytes);

/* Of a file's first bytes. DATA_LOSS: they are none. */
PS_MUST_USE ps_status ps_table_read_head(const uint8_t *bytes, size_t len, ps_table_head *out);

/* May a file with this head be taken in? FAILED_PRECONDITION as of ps_table_load. */
PS_MUST_USE ps_status ps_table_check_head(const ps_table *table, const ps_table_head *head);

/* Takes the next bytes of the file. */
typedef ps_status ps_table_write_fn(void *arg, const void *bytes, size_t len);

/* Writes the table, or the rows that were pushed to, made or removed since the
 * last save of either kind that did not fail. A failure is `write`'s. */
PS_MUST_USE ps_status ps_table_save(ps_table *table, ps_table_kind kind, ps_table_write_fn *write,
                                    void *arg);

/* Takes a file in: its rows in place of those of the same keys, what it says is
 * removed is, its candidates' counts in place of theirs. Virtual shards that are
 * not here are left out, so each server may be given the files of all. A whole
 * file first, then changes in their order; the clock goes to the file's tick if
 * that is later. What was taken in is among the next changes.
 *
 * DATA_LOSS            not such a file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  rows of another width, or with the state of another optimizer
 *                      where that is wanted (conf.values_only: it is left out); keys from
 *                      conf.key_end on
 * RESOURCE_EXHAUSTED   more rows than rows_max
 * A call that fails has changed nothing. */
PS_MUST_USE ps_status ps_table_load(ps_table *table, const uint8_t *bytes, size_t len);

/* What the table is now counts as saved: the next changes are those from here on. */
void ps_table_settle(ps_table *table);

#endif
