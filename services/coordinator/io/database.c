/* SPDX-License-Identifier: Apache-2.0 */
/* database.c - the file jobs.db: opens it, checks it, updates its schema, and recognises it. */
#include "services/coordinator/io/database.h"

#include "common/base/files.h"
#include "services/coordinator/io/database_copy.h"
#include "services/coordinator/io/database_query.h"
#include "services/coordinator/io/wal_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Step n converts schema n to n + 1. */
static const char *const schema_sql[] = {
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE jobs ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " request_id TEXT UNIQUE," /* NULL: the client gave none */
    " content TEXT NOT NULL,"  /* SHA-256 of the completed specification */
    " state INTEGER NOT NULL,"
    " outcome INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL,"
    " spec BLOB NOT NULL,"  /* psgd.v1.JobSpec */
    " detail BLOB NOT NULL" /* psgd.v1.Job without spec */
    ");"
    "CREATE INDEX jobs_by_state ON jobs (state, number);"
    "CREATE TABLE events ("
    " number INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,"
    " sequence INTEGER NOT NULL,"
    " time_us INTEGER NOT NULL,"
    " kind INTEGER NOT NULL,"
    " event BLOB NOT NULL," /* psgd.v1.WatchJobResponse */
    " PRIMARY KEY (number, sequence)"
    ") WITHOUT ROWID;",

    /* XXH3 of the blobs; NULL: stored by a program that made no sums */
    "ALTER TABLE jobs ADD COLUMN spec_sum INTEGER;"
    "ALTER TABLE jobs ADD COLUMN detail_sum INTEGER;"
    "CREATE TABLE identity (" /* one row, as ps_stamp */
    " id TEXT NOT NULL,"
    " created TEXT NOT NULL,"
    " changes INTEGER NOT NULL"
    ");",
};

enum { SCHEMA = sizeof schema_sql / sizeof schema_sql[0] };

static ps_status exec(sqlite3 *db, const char *sql, const char *what)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? ps_ok()
                                                                : ps_database_failed(db, what);
}

static ps_status take_lock(ps_database *d, const char *folder)
{
    static const char *const entries[] = {"jobs",    "jobs.db", "jobs.db-wal", "jobs.db-shm",
                                          "reserve", "stopped", NULL};
    ps_status st = ps_dir_lock(folder, entries, &d->lock_fd);

    return st.code == PS_UNAVAILABLE ? ps_fail(PS_FAILED_PRECONDITION,
                                               "another coordinator uses %s", PS_PATH_SHOWN(folder))
                                     : st;
}

/* Reads the value in the first column of the first row of a statement's result. */
static ps_status read_number(sqlite3 *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    ps_status st = ps_ok();

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        *out = sqlite3_column_int64(s, 0);
    } else {
        st = ps_database_failed(db, "read jobs.db");
    }
    sqlite3_finalize(s);
    return st;
}

/* Copies jobs.db to jobs.db.before-vN, before its schema changes. N is the new schema's number. */
static ps_status copy_before(ps_database *d, const char *folder)
{
    char path[PATH_BYTES], name[40];
    ps_stamp stamp;
    ps_status st;

    snprintf(name, sizeof name, "jobs.db.before-v%d", SCHEMA);
    st = ps_path_join(path, sizeof path, folder, name);
    return ps_is_ok(&st) ? ps_database_copy(d->db, path, &stamp) : st;
}

static ps_status migrate(ps_database *d, const char *folder, int64_t version)
{
    char end[60];
    ps_status st = ps_ok();

    if (version == SCHEMA) {
        return st;
    }
    if (version > 0) {
        st = copy_before(d, folder);
    }
    if (ps_is_ok(&st)) {
        st = exec(d->db, "BEGIN IMMEDIATE", "begin");
    }
    for (int64_t n = version; ps_is_ok(&st) && n < SCHEMA; n++) {
        st = exec(d->db, schema_sql[n], "make tables");
    }
    snprintf(end, sizeof end, "PRAGMA user_version = %d; COMMIT", SCHEMA);
    return ps_is_ok(&st) ? exec(d->db, end, "make tables") : st;
}

static ps_status draw_identity(ps_database *d)
{
    uint64_t bits[2];
    char sql[200];
    time_t now = time(NULL);
    struct tm utc;

    if (getrandom(bits, sizeof bits, 0) != sizeof bits) {
        return ps_fail_errno(errno, "draw an id");
    }
    gmtime_r(&now, &utc);
    strftime(d->stamp.created, sizeof d->stamp.created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    snprintf(d->stamp.id, sizeof d->stamp.id, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
    d->stamp.changes = 0;
    snprintf(sql, sizeof sql, "INSERT INTO identity (id, created, changes) VALUES ('%s', '%s', 0)",
             d->stamp.id, d->stamp.created);
    return exec(d->db, sql, "store the identity");
}

/* Compares the database with the stamp beside it, then writes the stamp anew. `is_new`: the file
 * had no schema. */
static ps_status compare(ps_database *d, const char *folder, bool is_new)
{
    ps_status st = ps_database_identity(d->db, &d->stamp);

    if (st.code == PS_NOT_FOUND) {
        st = draw_identity(d);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_stamp_read(folder, &d->before);
    if (!ps_is_ok(&st) && st.code != PS_NOT_FOUND && st.code != PS_DATA_LOSS) {
        return st; /* but a stamp that is missing or damaged is written anew, without comparison */
    }
    if (!ps_is_ok(&st)) {
        d->news = PS_DATABASE_AS_BEFORE;
    } else if (is_new) {
        d->news = PS_DATABASE_EMPTY;
    } else if (strcmp(d->before.id, d->stamp.id) != 0) {
        d->news = PS_DATABASE_OTHER;
    } else if (d->before.changes > d->stamp.changes) {
        d->news = PS_DATABASE_OLDER;
    }
    return ps_stamp_write(folder, &d->stamp, &d->stamp_fd);
}

/* Opens the file. Reads and checks it before anything is written, so that a damaged file stays as
 * it is. */
static ps_status open_checked(ps_database *d, const char *path, int64_t *version)
{
    ps_status st;

    if (sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK) {
        return ps_database_failed(d->db, PS_PATH_SHOWN(path));
    }
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    st = exec(d->db,
              "PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
              "open jobs.db");
    if (ps_is_ok(&st)) {
        st = read_number(d->db, "PRAGMA user_version", version);
    }
    if (ps_is_ok(&st) && *version > SCHEMA) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "jobs.db has schema %" PRId64 ", this program knows up to %d", *version,
                       SCHEMA);
    }
    if (ps_is_ok(&st) && *version > 0) {
        /* Checks every page of the table of jobs. The table of events is too large for that: each
         * event is checked when it is read. */
        st = ps_database_check(d->db, "PRAGMA quick_check(jobs)", "check jobs.db");
    }
    if (ps_is_ok(&st)) {
        sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
        st = exec(d->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", "open jobs.db");
    }
    return st;
}

ps_status ps_database_open(const char *folder, ps_database *out)
{
    char path[PATH_BYTES];
    int64_t version = 0;
    ps_status st = ps_dir_make(folder);

    *out = (ps_database){.lock_fd = -1, .stamp_fd = -1};
    if (ps_is_ok(&st)) {
        st = take_lock(out, folder);
    }
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, folder, "jobs.db");
    }
    if (ps_is_ok(&st)) {
        st = ps_wal_check(path);
    }
    if (ps_is_ok(&st)) {
        st = open_checked(out, path, &version);
    }
    if (ps_is_ok(&st)) {
        st = migrate(out, folder, version);
    }
    return ps_is_ok(&st) ? compare(out, folder, version == 0) : st;
}

ps_status ps_database_open_reader(const char *folder, ps_database *out)
{
    char path[PATH_BYTES];
    ps_status st = ps_path_join(path, sizeof path, folder, "jobs.db");

    *out = (ps_database){.lock_fd = -1, .stamp_fd = -1};
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (sqlite3_open_v2(path, &out->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        return ps_database_failed(out->db, PS_PATH_SHOWN(path));
    }
    sqlite3_db_config(out->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return exec(out->db,
                "PRAGMA busy_timeout = 5000; PRAGMA trusted_schema = OFF; PRAGMA query_only = ON",
                "open jobs.db");
}

void ps_database_close(ps_database *d)
{
    sqlite3_close(d->db);
    if (d->stamp_fd >= 0) {
        close(d->stamp_fd);
    }
    if (d->lock_fd >= 0) {
        close(d->lock_fd);
    }
    *d = (ps_database){.lock_fd = -1, .stamp_fd = -1};
}

void ps_database_changed(ps_database *d, bool durable)
{
    d->stamp.changes++;
    if (durable) {
        ps_stamp_advance(d->stamp_fd, d->stamp.changes);
    }
}
