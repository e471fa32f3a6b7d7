/* SPDX-License-Identifier: Apache-2.0 */
/* table_file_impl.h - the structs of a table's file; for table_file.c, table_load.c and
 * table_state.c only. */
#ifndef PS_COMMON_STORE_TABLE_FILE_IMPL_H
#define PS_COMMON_STORE_TABLE_FILE_IMPL_H

#include "common/store/table_file.h"
#include "common/store/table_impl.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers lie as in memory");

enum { KEY_BYTES = 8, ROW_HEAD_BYTES = 32, SUM_BYTES = 8, CANDIDATE_BYTES = 16 };

#define PS_TABLE_MAGIC "PSGDTAB1"

typedef struct file_head {
    char magic[8];
    uint32_t width, slots, table, tick, kind, sections, rule, zero;
    uint8_t here[PS_SHARDS / 8]; /* bit s % 8 of byte s / 8: virtual shard s was there */
} file_head;

typedef struct section_head {
    uint32_t shard, rows, removed, candidates;
} section_head;

typedef struct row_head {
    uint64_t key, steps;
    float show, click;
    /* flag: 0 in a table's file (table_file.h); in a store's file whether the next file of changes
     * writes the row (table_state.h) */
    uint32_t age, flag;
} row_head;

_Static_assert(sizeof(file_head) + SUM_BYTES == PS_TABLE_HEAD_BYTES && sizeof(section_head) == 16 &&
                   sizeof(row_head) == ROW_HEAD_BYTES,
               "nothing between the members");

/* Returns the number by which a file identifies an optimizer's rule. */
uint32_t table_file_rule(const ps_optim *optim);

#endif
