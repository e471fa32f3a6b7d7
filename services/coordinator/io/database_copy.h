/* SPDX-License-Identifier: Apache-2.0 */
/* database_copy.h - copies of jobs.db, made by SQLite's online backup. */
#ifndef PS_COORDINATOR_DATABASE_COPY_H
#define PS_COORDINATOR_DATABASE_COPY_H

#include "services/coordinator/io/database.h"

/* Reads the identity. NOT_FOUND: it has none yet. */
PS_MUST_USE ps_status ps_database_identity(sqlite3 *db, ps_stamp *out);

/* Copies the database of a connection to the file `to`, whole and durable or not at all, replacing
 * what is there. Checks every page of the copy. *stamp becomes the copy's, zeroed if it has none.
 * Mode 0600. */
PS_MUST_USE ps_status ps_database_copy(sqlite3 *from, const char *to, ps_stamp *stamp);

/* Copies `folder`/jobs.db to the file `to` as one transaction sees it, also while a coordinator
 * uses it. A copy that is there is replaced.
 *
 * NOT_FOUND       there is no jobs.db
 * ALREADY_EXISTS  `to` is there and is no SQLite database, or is jobs.db itself
 * DATA_LOSS       jobs.db is damaged */
PS_MUST_USE ps_status ps_database_backup(const char *folder, const char *to, ps_stamp *stamp);

#endif
