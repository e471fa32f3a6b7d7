/* SPDX-License-Identifier: Apache-2.0 */
/* database_query.c - see database_query.h. */
#include "services/coordinator/io/database_query.h"

#include <stdio.h>
#include <string.h>

ps_status ps_database_failed(sqlite3 *db, const char *what)
{
    int code = sqlite3_errcode(db);

    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
        return ps_fail(PS_DATA_LOSS, "%s: jobs.db is damaged: %s", what, sqlite3_errmsg(db));
    }
    return ps_fail(code == SQLITE_FULL ? PS_RESOURCE_EXHAUSTED : PS_INTERNAL, "%s: %s", what,
                   sqlite3_errmsg(db));
}

ps_status ps_database_check(sqlite3 *db, const char *sql, const char *what)
{
    sqlite3_stmt *s = NULL;
    const char *verdict;
    ps_status st = ps_ok();

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW) {
        st = ps_database_failed(db, what);
    } else {
        verdict = (const char *)sqlite3_column_text(s, 0);
        if (!verdict || strcmp(verdict, "ok") != 0) {
            st = ps_fail(PS_DATA_LOSS, "jobs.db is damaged: %s", verdict ? verdict : "no verdict");
        }
    }
    sqlite3_finalize(s);
    return st;
}

ps_status ps_database_identity(sqlite3 *db, ps_stamp *out)
{
    sqlite3_stmt *s = NULL;
    ps_status st = ps_ok();
    int code = sqlite3_prepare_v2(db, "SELECT id, created, changes FROM identity", -1, &s, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_step(s);
    }
    if (code == SQLITE_ROW) {
        snprintf(out->id, sizeof out->id, "%s", (const char *)sqlite3_column_text(s, 0));
        snprintf(out->created, sizeof out->created, "%s", (const char *)sqlite3_column_text(s, 1));
        out->changes = (uint64_t)sqlite3_column_int64(s, 2);
    } else if (code == SQLITE_DONE) {
        st = ps_fail(PS_NOT_FOUND, "jobs.db has no identity");
    } else {
        st = ps_database_failed(db, "read the identity");
    }
    sqlite3_finalize(s);
    return st;
}
