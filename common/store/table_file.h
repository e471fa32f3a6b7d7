/* SPDX-License-Identifier: Apache-2.0 */
/* table_file.h - a table as a file: the whole table, or what has changed since the file before.
 *
 * Numbers are little-endian. H is the XXH3-64 of the head, or of the section, before it.
 *
 * file       head, sections
 * head       "PSGDTAB1"; u32 width, slots, table, tick, kind (0 whole, 1 changes),
 *            sections, rule (XXH3-64 of the optimizer's name, its lower half), 0; 256 bits:
 *            which virtual shards were there, bit s % 8 of byte s / 8; u64 H
 * section    u32 virtual shard, number of rows, of removed keys, of candidates; the rows,
 *            removed keys and candidates; u64 H
 * row        u64 key, steps; f32 show, click; u32 age (ticks since the last push),
 *            u32 0; f32 (1 + slots) * width: values, then the optimizer's state
 * removed    u64 key; only in a file of changes
 * candidate  u64 key (one without a row whose pushes are counted); u32 count, age;
 *            only in a whole file
 *
 * Sections ascend by virtual shard; the rows within one are in no order. A file does not have the
 * initial values of rows, because they follow from seed and key. */
#ifndef PS_COMMON_STORE_TABLE_FILE_H
#define PS_COMMON_STORE_TABLE_FILE_H

#include "common/store/table.h"

/* Most bytes of a file: an estimate of the memory that a server can have. */
#define PS_TABLE_FILE_MAX (UINT64_C(64) << 30)

typedef enum ps_table_kind { PS_TABLE_WHOLE, PS_TABLE_CHANGES } ps_table_kind;

enum { PS_TABLE_HEAD_BYTES = 80 };

typedef struct ps_table_head {
    uint32_t width, slots, rule, table, tick, sections;
    ps_table_kind kind;
    /* virtual shards that the file covers; one without a section has no rows */
    bool here[PS_SHARDS];
} ps_table_head;

/* Checks the size of a file. Returns INVALID_ARGUMENT if it is 0 or more than PS_TABLE_FILE_MAX. */
PS_MUST_USE ps_status ps_table_check_size(uint64_t bytes);

/* Reads the head at the front of a file. Returns DATA_LOSS if the bytes are not a head. */
PS_MUST_USE ps_status ps_table_read_head(const uint8_t *bytes, size_t len, ps_table_head *out);

/* Checks whether the table can load a file with this head. Returns FAILED_PRECONDITION for those
 * reasons of ps_table_load that a head shows: another width, another optimizer. */
PS_MUST_USE ps_status ps_table_check_head(const ps_table *table, const ps_table_head *head);

/* Takes the next bytes of the file that is written. */
typedef ps_status ps_table_write_fn(void *arg, const void *bytes, size_t len);

/* Writes the whole table, or the changes: rows that were pushed to, created or removed since the
 * last save, whole or of changes, that succeeded. Returns the failure of `write`. */
PS_MUST_USE ps_status ps_table_save(ps_table *table, ps_table_kind kind, ps_table_write_fn *write,
                                    void *arg);

/* Loads a file. Its rows replace the table's rows and candidates of the same keys. A key that the
 * file lists as removed loses its row. The file's counts of candidates replace the table's counts
 * of the same keys; a count for which candidates_max leaves no room is dropped. Other rows and
 * counts stay. Virtual shards that the table does not have are skipped, so each server may be given
 * the files of all servers. Load a whole file first, then files of changes in their order. If the
 * file's tick is later than the table's, it becomes the table's. Loaded rows count as changes at
 * the next save. A call that fails changes nothing.
 *
 * DATA_LOSS            not such a file, cut, or damaged; names the offset
 * FAILED_PRECONDITION  rows of another width; state of another optimizer, unless
 *                      conf.values_only ignores it; keys from conf.key_end on
 * RESOURCE_EXHAUSTED   more rows than rows_max
 */
PS_MUST_USE ps_status ps_table_load(ps_table *table, const uint8_t *bytes, size_t len);

/* Makes the present table count as saved: the next save of changes writes what changes from now
 * on. */
void ps_table_settle(ps_table *table);

#endif
