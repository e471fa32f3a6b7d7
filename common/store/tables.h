/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - the sparse tables of a job, as far as one server has them: rows by id (table.h).
 *
 * They may be made before the store that steps them (store.h), as files are read into them first
 * (tables_file.h). One thread at a time.
 */
#ifndef PS_COMMON_STORE_TABLES_H
#define PS_COMMON_STORE_TABLES_H

#include "common/store/table.h"
#include "common/store/table_file.h"

typedef struct ps_tables_conf {
    uint32_t table_count;
    const ps_table_conf *tables; /* (table_count), copied; of the same virtual shards */
    uint32_t keys_max;           /* of a contribution and table */
    uint64_t tick;               /* clocks from one ps_table_shrink to the next; 0: never */
} ps_tables_conf;

typedef struct ps_tables {
    uint32_t table_count, keys_max; /* as of conf */
    uint64_t tick;
    ps_table **tables; /* (table_count) */
} ps_tables;

ps_tables *ps_tables_create(const ps_tables_conf *conf);
void ps_tables_destroy(ps_tables *tables); /* NULL is allowed */

/* Gives of each table in turn the rows of keys (count): (count, width). INVALID_ARGUMENT: keys that
 * do not ascend, or that are not of this server or no ids of the table. */
PS_MUST_USE ps_status ps_tables_pull(const ps_tables *tables, const uint64_t *keys, size_t count,
                                     float *out);

/* Returns what all tables have counted together. */
ps_table_counters ps_tables_count(const ps_tables *tables);

ps_table *ps_tables_at(const ps_tables *tables, uint32_t table);

#endif
