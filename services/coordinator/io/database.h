/* SPDX-License-Identifier: Apache-2.0 */
/* database.h - the file jobs.db: opened by one process at a time, checked, updated to the present
 * schema, and compared with the one used before.
 *
 * One thread at a time. DATA_LOSS means that the file is damaged; it was not changed.
 */
#ifndef PS_COORDINATOR_DATABASE_H
#define PS_COORDINATOR_DATABASE_H

#include "common/base/status.h"
#include "services/coordinator/io/stamp.h"

#include <sqlite3.h>
#include <stdbool.h>

/* How jobs.db compares with the one with which the directory was last used. */
typedef enum ps_database_news {
    PS_DATABASE_AS_BEFORE, /* the same database, or it is not known that there was another before */
    PS_DATABASE_EMPTY,     /* this one is new and empty, and the directory had another before */
    PS_DATABASE_OTHER,     /* this one has another identity than the one before */
    /* the same identity, but this one lacks changes that were stored: an older copy */
    PS_DATABASE_OLDER
} ps_database_news;

typedef struct ps_database {
    sqlite3 *db;
    ps_stamp stamp; /* identity and number of changes of this database */
    /* stamp of the database with which the folder was last used; empty id: there was none */
    ps_stamp before;
    ps_database_news news;
    int lock_fd, stamp_fd; /* -1: not open */
} ps_database;

/* Opens or creates `folder`/jobs.db (WAL, synchronous FULL) and checks the table of jobs. Updates
 * an older schema, after it has copied the file to jobs.db.before-vN. The caller closes *out, also
 * after a failure.
 *
 * FAILED_PRECONDITION  another process has the file open, or a newer program made it
 * DATA_LOSS            the file is damaged */
PS_MUST_USE ps_status ps_database_open(const char *folder, ps_database *out);

/* Opens `folder`/jobs.db, which this process has open already, a second time for reading. The
 * caller closes *out, also after a failure. */
PS_MUST_USE ps_status ps_database_open_reader(const char *folder, ps_database *out);
void ps_database_close(ps_database *d);

/* Notes that a transaction was committed which counted itself in the table `identity`. durable: it
 * survives a crash of the host. */
void ps_database_changed(ps_database *d, bool durable);

#endif
