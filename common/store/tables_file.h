/* SPDX-License-Identifier: Apache-2.0 */
/* tables_file.h - files that the sparse tables of a job start from, one behind the other: whole
 * ones, then changes in their order, of any number of servers.
 *
 * A file says of which table it is and which virtual shards were there when it was written
 * (table_file.h). Changes are of virtual shards that whole files have brought, and in the end
 * those must have brought all: so a server's file that is missing, or changes without what they
 * change, are told and not trained on. Pure; one thread at a time.
 */
#ifndef PS_COMMON_STORE_TABLES_FILE_H
#define PS_COMMON_STORE_TABLES_FILE_H

#include "common/store/tables.h"

typedef struct ps_tables_files ps_tables_files;

/* The tables are borrowed until destroy, and were not pushed to. */
ps_tables_files *ps_tables_files_create(ps_tables *tables);
void ps_tables_files_destroy(ps_tables_files *files); /* NULL is allowed */

/* May this file come next? Its first PS_TABLE_HEAD_BYTES are enough; nothing is taken in, but
 * it counts as brought.
 *
 * DATA_LOSS            not such a file, cut, or damaged
 * FAILED_PRECONDITION  no such table, or as of ps_table_load; changes without the whole
 */
PS_MUST_USE ps_status ps_tables_files_see(ps_tables_files *files, const uint8_t *bytes, size_t len);

/* The same, and takes it in. Errors also as of ps_table_load. */
PS_MUST_USE ps_status ps_tables_files_take(ps_tables_files *files, const uint8_t *bytes,
                                           size_t len);

/* There are no more. FAILED_PRECONDITION names the table and virtual shard of which none has
 * come. What was taken in is no change. */
PS_MUST_USE ps_status ps_tables_files_end(ps_tables_files *files);

#endif
