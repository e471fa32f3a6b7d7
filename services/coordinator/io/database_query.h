/* SPDX-License-Identifier: Apache-2.0 */
/* database_query.h - what a connection to jobs.db, or to a copy of it, says: why it failed, whether
 * the file is sound, which database it is. */
#ifndef PS_COORDINATOR_DATABASE_QUERY_H
#define PS_COORDINATOR_DATABASE_QUERY_H

#include "common/base/status.h"
#include "services/coordinator/io/stamp.h"

#include <sqlite3.h>

/* Returns the failure that the connection reports: DATA_LOSS if the file is damaged;
 * RESOURCE_EXHAUSTED if the disk is full; else INTERNAL. The text begins with `what`. */
PS_MUST_USE ps_status ps_database_failed(sqlite3 *db, const char *what);

/* Runs a check that returns one row: "ok", or what is damaged. Returns DATA_LOSS if something
 * is. */
PS_MUST_USE ps_status ps_database_check(sqlite3 *db, const char *sql, const char *what);

/* Reads the identity of a database. Fails with NOT_FOUND if it has none yet. */
PS_MUST_USE ps_status ps_database_identity(sqlite3 *db, ps_stamp *out);

#endif
