/* SPDX-License-Identifier: Apache-2.0 */
/* wal_check.h - whether a write-ahead log belongs to the database beside it.
 *
 * SQLite applies any log that lies beside a database. One that was left beside a restored backup
 * brings back later changes, or makes the database malformed. Each transaction of ours counts
 * itself in the table `identity`: so the first count in the log must follow that in the database
 * file, unless the log has been copied into the file already.
 */
#ifndef PS_COORDINATOR_WAL_CHECK_H
#define PS_COORDINATOR_WAL_CHECK_H

#include "common/base/status.h"

/* Looks at `path` (jobs.db), which nobody has open, and at the log beside it. Renames a log that
 * belongs to another database, or to another time of this one, to "jobs.db-wal.other", and says so.
 * Does nothing if it cannot tell. */
PS_MUST_USE ps_status ps_wal_check(const char *path);

#endif
