/* SPDX-License-Identifier: Apache-2.0 */
/* database_copy.h - copies jobs.db by SQLite's online backup. */
#ifndef PS_COORDINATOR_DATABASE_COPY_H
#define PS_COORDINATOR_DATABASE_COPY_H

#include "services/coordinator/io/database_query.h"

/* Copies the database of a connection to the file `to` (mode 0600), which it replaces. The copy is
 * complete and durable, or `to` stays as it was. Checks every page of the copy. *stamp becomes the
 * identity of the copy, zeros if it has none. */
PS_MUST_USE ps_status ps_database_copy(sqlite3 *from, const char *to, ps_stamp *stamp);

/* Copies `folder`/jobs.db to the file `to`, as of one transaction. A coordinator may be using
 * jobs.db. Replaces an older copy.
 *
 * NOT_FOUND       there is no jobs.db
 * ALREADY_EXISTS  `to` exists and is no SQLite database, or is jobs.db itself
 * DATA_LOSS       jobs.db is damaged
 */
PS_MUST_USE ps_status ps_database_backup(const char *folder, const char *to, ps_stamp *stamp);

#endif
