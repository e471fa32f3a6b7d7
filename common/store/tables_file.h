/* SPDX-License-Identifier: Apache-2.0 */
/* tables_file.h - reads the files that the sparse tables of a job start from, in order: whole
 * files, then files of changes, written by any number of servers.
 *
 * A file names its table and the virtual shards that it covers (table_file.h). A file of changes
 * must cover only virtual shards that whole files have covered before. In the end whole files must
 * have covered all virtual shards. So a missing file of a server is an error, and so are changes
 * without the whole file that they change. Pure; one thread at a time. */
#ifndef PS_COMMON_STORE_TABLES_FILE_H
#define PS_COMMON_STORE_TABLES_FILE_H

#include "common/store/tables.h"

typedef struct ps_tables_files ps_tables_files;

/* Creates a reader. The tables are borrowed until destroy; nothing must have been pushed to
 * them. */
ps_tables_files *ps_tables_files_create(ps_tables *tables);
void ps_tables_files_destroy(ps_tables_files *files); /* NULL is allowed */

/* Checks that this file may come next. `bytes` are at least its first PS_TABLE_HEAD_BYTES. Loads
 * nothing, but the virtual shards of the file count as covered.
 *
 * DATA_LOSS            not such a file, cut, or damaged
 * FAILED_PRECONDITION  no such table, or a reason that ps_table_load names; changes without
 *                      their whole file
 */
PS_MUST_USE ps_status ps_tables_files_see(ps_tables_files *files, const uint8_t *bytes, size_t len);

/* Checks a file as ps_tables_files_see does, and loads it. Also fails as ps_table_load does. */
PS_MUST_USE ps_status ps_tables_files_take(ps_tables_files *files, const uint8_t *bytes,
                                           size_t len);

/* Ends the list of files. Returns FAILED_PRECONDITION, with the table and the virtual shard, if
 * whole files do not cover all virtual shards. Afterwards loaded rows count as saved. */
PS_MUST_USE ps_status ps_tables_files_end(ps_tables_files *files);

#endif
