/* SPDX-License-Identifier: Apache-2.0 */
/* wal_check.h - checks whether a write-ahead log belongs to the database beside it.
 *
 * SQLite applies any log that is beside a database. A log that was left beside a restored backup
 * would bring back later changes, or damage the database. Each transaction of the coordinator
 * counts itself in the table `identity`. So the first count in the log must be one more than the
 * count in the database file, unless the log was copied into the file already. */
#ifndef PS_COORDINATOR_WAL_CHECK_H
#define PS_COORDINATOR_WAL_CHECK_H

#include "common/base/status.h"

/* Checks the database `path` (jobs.db), which nobody has open, and the log beside it. Renames a log
 * that belongs to another database, or to another time of this one, to "jobs.db-wal.other", and
 * logs that. Does nothing if it cannot tell. */
PS_MUST_USE ps_status ps_wal_check(const char *path);

#endif
