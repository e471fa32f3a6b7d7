/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - the sparse tables of a job, as far as one server has them: rows by id (table.h).
 *
 * They can be created before the store that steps them (store.h), because files are loaded into
 * them first (tables_file.h). One thread at a time.
 */
#ifndef PS_COMMON_STORE_TABLES_H
#define PS_COMMON_STORE_TABLES_H

#include "common/store/table.h"
#include "common/store/table_file.h"

typedef struct ps_tables_conf {
    uint32_t table_count;
    const ps_table_conf *tables; /* (table_count), copied; all with the same virtual shards */
    uint32_t keys_max;           /* most keys of a contribution in one table */
    uint64_t tick;               /* clocks between two calls of ps_table_shrink; 0: never */
} ps_tables_conf;

/* Most clocks of ps_tables_shrink_at. */
enum { PS_SHRINKS_MAX = 1000 };

typedef struct ps_tables {
    uint32_t table_count, keys_max; /* as in ps_tables_conf */
    uint64_t tick;
    ps_table **tables; /* (table_count) */
    /* (shrink_count): clocks, ascending, at which ps_table_shrink is called too */
    uint64_t *shrinks;
    size_t shrink_count;
} ps_tables;

ps_tables *ps_tables_create(const ps_tables_conf *conf);
void ps_tables_destroy(ps_tables *tables); /* NULL is allowed */

/* Has the store shrink the tables when the contributions to all clocks before one of `clocks`
 * (count <= PS_SHRINKS_MAX, ascending) have arrived. Copies `clocks`. Call it before the store gets
 * contributions. Clocks that are over then have no effect. */
void ps_tables_shrink_at(ps_tables *tables, const uint64_t *clocks, size_t count);

/* Copies the values of the rows of keys (count) to `out`: first (count, width) of table 0, then of
 * table 1, and so on. Returns INVALID_ARGUMENT if keys do not ascend, are not this server's, or are
 * no ids of a table. */
PS_MUST_USE ps_status ps_tables_pull(const ps_tables *tables, const uint64_t *keys, size_t count,
                                     float *out);

/* Returns the sums of the counters of all tables. */
ps_table_counters ps_tables_count(const ps_tables *tables);

ps_table *ps_tables_at(const ps_tables *tables, uint32_t table);

#endif
