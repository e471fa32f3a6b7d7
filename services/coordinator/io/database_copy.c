/* SPDX-License-Identifier: Apache-2.0 */
/* database_copy.c - copies jobs.db by SQLite's online backup. */
#include "services/coordinator/io/database_copy.h"

#include "common/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Converts the copy to one plain file, and checks it. */
static ps_status finish_copy(sqlite3 *copy)
{
    if (sqlite3_exec(copy, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) != SQLITE_OK) {
        return ps_database_failed(copy, "check the copy");
    }
    return ps_database_check(copy, "PRAGMA quick_check(1)", "check the copy");
}

static ps_status copy_pages(sqlite3 *from, sqlite3 *copy)
{
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", from, "main");
    int code;

    if (!backup) {
        return ps_database_failed(copy, "copy jobs.db");
    }
    /* Copies all pages in one step, within one read transaction. Writers are not blocked. */
    code = sqlite3_backup_step(backup, -1);
    sqlite3_backup_finish(backup);
    if (code == SQLITE_DONE) {
        return ps_ok();
    }
    return ps_database_failed(sqlite3_errcode(copy) == SQLITE_OK ? from : copy, "copy jobs.db");
}

static ps_status copy_to(sqlite3 *from, const char *path, ps_stamp *stamp)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    sqlite3 *copy = NULL;
    ps_status st;

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
    }
    close(fd);
    if (sqlite3_open_v2(path, &copy, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        st = ps_database_failed(copy, PS_PATH_SHOWN(path));
    } else {
        st = copy_pages(from, copy);
    }
    if (ps_is_ok(&st)) {
        st = finish_copy(copy);
    }
    *stamp = (ps_stamp){0};
    if (ps_is_ok(&st)) {
        ps_status none = ps_database_identity(copy, stamp);

        (void)none; /* fails for a schema without the table `identity`; *stamp stays zeros */
    }
    sqlite3_close(copy);
    return st;
}

ps_status ps_database_copy(sqlite3 *from, const char *to, ps_stamp *stamp)
{
    char temporary[PATH_BYTES];
    int n = snprintf(temporary, sizeof temporary, "%s.tmp", to);
    ps_status st;

    if (n < 0 || n >= PATH_BYTES) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s is too long", PS_PATH_SHOWN(to));
    }
    st = copy_to(from, temporary, stamp);
    if (ps_is_ok(&st)) {
        st = ps_file_replace(temporary, to);
    }
    if (!ps_is_ok(&st)) {
        unlink(temporary);
    }
    return st;
}

/* Checks that the target does not exist or is a database other than the one that is copied. */
static ps_status check_target(const char *from, const char *to)
{
    static const char magic[] = "SQLite format 3";
    char head[sizeof magic] = "";
    struct stat source, target;
    ssize_t n;
    int fd;

    if (lstat(to, &target) != 0) {
        return errno == ENOENT ? ps_ok() : ps_fail_errno(errno, "%s", PS_PATH_SHOWN(to));
    }
    if (stat(from, &source) == 0 && source.st_dev == target.st_dev &&
        source.st_ino == target.st_ino) {
        return ps_fail(PS_ALREADY_EXISTS, "%s is the registry itself", PS_PATH_SHOWN(to));
    }
    fd = S_ISREG(target.st_mode) ? open(to, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    n = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (n == 0 || (n == sizeof head && memcmp(head, magic, sizeof magic) == 0)) {
        return ps_ok();
    }
    return ps_fail(PS_ALREADY_EXISTS, "%s is there and is no backup", PS_PATH_SHOWN(to));
}

ps_status ps_database_backup(const char *folder, const char *to, ps_stamp *stamp)
{
    char path[PATH_BYTES];
    sqlite3 *db = NULL;
    ps_status st = ps_path_join(path, sizeof path, folder, "jobs.db");

    if (ps_is_ok(&st) && access(path, F_OK) != 0) {
        st = ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
    }
    if (ps_is_ok(&st)) {
        st = check_target(path, to);
    }
    if (ps_is_ok(&st) &&
        (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
         sqlite3_exec(db, "PRAGMA busy_timeout = 5000; PRAGMA trusted_schema = OFF", NULL, NULL,
                      NULL) != SQLITE_OK)) {
        st = ps_database_failed(db, "open jobs.db");
    }
    if (ps_is_ok(&st)) {
        sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        st = ps_database_copy(db, to, stamp);
    }
    sqlite3_close(db);
    return st;
}
