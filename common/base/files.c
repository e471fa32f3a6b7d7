/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - see files.h. */
#include "common/base/files.h"

#include "common/base/clock.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    FIRST_BYTES = 64 * 1024,
    COPY_BYTES = 1 << 20,
    OPEN_DIRS = 16, /* most descriptors that nftw holds open while a tree is removed */
    PATH_NAMES_MAX = 8,
    /* whenever so many bytes were added, a writer has the kernel begin to write them to disk */
    START_BYTES = 8 << 20,
};

/* Returns the first size of a buffer for the file: that of a regular file, at least FIRST_BYTES and
 * not above max_bytes, and two bytes more. The size of other files is not known before. */
static size_t guess_cap(int fd, size_t max_bytes)
{
    struct stat info;
    size_t cap = FIRST_BYTES;

    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > FIRST_BYTES) {
        cap = (uintmax_t)info.st_size > max_bytes ? max_bytes : (size_t)info.st_size;
    }
    /* One byte is for the NUL. With the other, read_all meets the end of the file, or finds that
     * the file is longer than max_bytes, before it has to enlarge the buffer. */
    return cap + 2;
}

/* Reads to the end of the file, and fails if that is behind max_bytes. Ends *data with a NUL, which
 * *n does not count. The caller frees *data, after a failure too. */
static ps_status read_all(int fd, size_t max_bytes, char **data, size_t *n)
{
    size_t cap = guess_cap(fd, max_bytes), len = 0;
    ssize_t got;

    *data = malloc(cap);
    while (*data != NULL) {
        got = read(fd, *data + len, cap - 1 - len);
        if (got < 0 && errno != EINTR) {
            return ps_fail_errno(errno, "read");
        }
        len += got < 0 ? 0 : (size_t)got;
        if (len > max_bytes) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "more than %zu bytes", max_bytes);
        }
        if (got == 0) {
            (*data)[len] = '\0';
            *n = len;
            return ps_ok();
        }
        if (len == cap - 1) {
            char *larger = realloc(*data, cap * 2);

            if (larger == NULL) {
                break;
            }
            *data = larger;
            cap *= 2;
        }
    }
    return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for it");
}

ps_status ps_file_read(const char *path, size_t max_bytes, char **bytes, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *data = NULL;
    ps_status st;

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
    }
    st = read_all(fd, max_bytes, &data, n);
    close(fd);
    if (!ps_is_ok(&st)) {
        free(data);
        return ps_wrap(st, "%s", PS_PATH_SHOWN(path));
    }
    *bytes = data;
    return st;
}

static int write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t done = write(fd, p, n);

        if (done < 0 && errno != EINTR) {
            return -1;
        }
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
    return 0;
}

/* Returns the directory of a path: "a/b" for "a/b/c", "." for "c", "/" for "/c". The caller
 * frees it. */
static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return ps_xstrdup(".");
    }
    return ps_xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static void forget(ps_file_writer *writer)
{
    free(writer->temporary);
    free(writer->path);
    *writer = (ps_file_writer){.fd = -1};
}

/* Returns the path of a temporary file in the folder of `path`; the caller frees it. Its name
 * begins with a dot, so it is not a safe name and no list of files shows it. */
static char *temporary_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    int n = slash == NULL ? 0 : (int)(slash + 1 - path);
    ps_strbuf name = {0};

    ps_strbuf_printf(&name, "%.*s.%s.%ld.%lld.tmp", n, path, path + n, (long)getpid(),
                     (long long)ps_clock_us());
    return ps_strbuf_take(&name);
}

static ps_status open_writer(ps_file_writer *writer, const char *path, mode_t mode)
{
    *writer = (ps_file_writer){.fd = -1, .path = ps_xstrdup(path)};
    /* Tries again with a new name if the name exists: another thread has made it in this
     * microsecond, or a dead process with this pid has left it. */
    do {
        free(writer->temporary);
        writer->temporary = temporary_name(path);
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (writer->fd < 0 && errno == EEXIST);
    if (writer->fd < 0) {
        ps_status st = ps_fail_errno(errno, "make a file beside %s", PS_PATH_SHOWN(path));

        forget(writer);
        return st;
    }
    return ps_ok();
}

ps_status ps_file_writer_open(ps_file_writer *writer, const char *path)
{
    return open_writer(writer, path, 0644);
}

ps_status ps_file_writer_open_passing(ps_file_writer *writer, const char *path)
{
    ps_status st = ps_file_writer_open(writer, path);

    writer->is_passing = true;
    return st;
}

/* Has the kernel begin to write to disk what was added since the last call, without waiting. A
 * failure does not matter here: only fsync says whether the bytes are on disk. */
static void start_writing(ps_file_writer *writer)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(writer->fd, (off_t)writer->started,
                          (off_t)(writer->added - writer->started), SYNC_FILE_RANGE_WRITE);
#endif
    writer->started = writer->added;
}

ps_status ps_file_writer_add(ps_file_writer *writer, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        size_t some = n < START_BYTES ? n : START_BYTES;

        if (write_all(writer->fd, p, some) != 0) {
            return ps_fail_errno(errno, "write %s", PS_PATH_SHOWN(writer->path));
        }
        writer->added += some;
        if (!writer->is_passing && writer->added - writer->started >= START_BYTES) {
            start_writing(writer);
        }
        p += some;
        n -= some;
    }
    return ps_ok();
}

static int sync_dir_of(const char *path)
{
    char *dir = dir_of(path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = -1;

    free(dir);
    if (fd >= 0) {
        /* Some file systems cannot sync a directory and answer EINVAL. */
        rc = fsync(fd) == 0 || errno == EINVAL ? 0 : -1;
        close(fd);
    }
    return rc;
}

void ps_file_writer_abandon(ps_file_writer *writer)
{
    if (writer->temporary != NULL) {
        close(writer->fd);
        unlink(writer->temporary);
        forget(writer);
    }
}

ps_status ps_file_writer_commit(ps_file_writer *writer)
{
    ps_status st = ps_ok();

    if ((!writer->is_passing && fsync(writer->fd) != 0) ||
        rename(writer->temporary, writer->path) != 0) {
        st = ps_fail_errno(errno, "write %s", PS_PATH_SHOWN(writer->path));
        ps_file_writer_abandon(writer);
        return st;
    }
    if (!writer->is_passing && sync_dir_of(writer->path) != 0) {
        st = ps_fail_errno(errno, "sync the directory of %s", PS_PATH_SHOWN(writer->path));
    }
    close(writer->fd);
    forget(writer);
    return st;
}

static ps_status write_whole(const char *path, const void *bytes, size_t n, mode_t mode)
{
    ps_file_writer writer;
    ps_status st = open_writer(&writer, path, mode);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_file_writer_add(&writer, bytes, n);
    if (!ps_is_ok(&st)) {
        ps_file_writer_abandon(&writer);
        return st;
    }
    return ps_file_writer_commit(&writer);
}

ps_status ps_file_write(const char *path, const void *bytes, size_t n)
{
    return write_whole(path, bytes, n, 0644);
}

ps_status ps_file_write_private(const char *path, const void *bytes, size_t n)
{
    return write_whole(path, bytes, n, 0600);
}

ps_status ps_file_copy(const char *from, const char *to)
{
    uint8_t *bytes = ps_xmalloc(COPY_BYTES);
    ps_file_writer writer;
    ssize_t n = 1;
    int fd = -1;
    ps_status st = ps_file_open(from, &fd, NULL);

    if (!ps_is_ok(&st)) {
        free(bytes);
        return st;
    }
    st = ps_file_writer_open(&writer, to);
    while (ps_is_ok(&st) && n > 0) {
        n = read(fd, bytes, COPY_BYTES);
        st = n < 0 ? ps_fail_errno(errno, "read %s", PS_PATH_SHOWN(from))
                   : ps_file_writer_add(&writer, bytes, (size_t)n);
        if (!ps_is_ok(&st)) {
            ps_file_writer_abandon(&writer);
        }
    }
    close(fd);
    free(bytes);
    return ps_is_ok(&st) ? ps_file_writer_commit(&writer) : st;
}

ps_status ps_file_replace(const char *from, const char *to)
{
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ps_status st = ps_ok();

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(from));
    }
    if (fsync(fd) != 0 || rename(from, to) != 0) {
        st = ps_fail_errno(errno, "write %s", PS_PATH_SHOWN(to));
    } else if (sync_dir_of(to) != 0) {
        st = ps_fail_errno(errno, "sync the directory of %s", PS_PATH_SHOWN(to));
    }
    close(fd);
    return st;
}

ps_status ps_file_append(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    ps_status st = ps_ok();

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
    }
    if (write_all(fd, bytes, n) != 0) {
        st = ps_fail_errno(errno, "append to %s", PS_PATH_SHOWN(path));
    }
    if (close(fd) != 0 && ps_is_ok(&st)) {
        st = ps_fail_errno(errno, "append to %s", PS_PATH_SHOWN(path));
    }
    return st;
}

ps_status ps_disk_free(const char *path, uint64_t *bytes)
{
    struct statvfs info;

    if (statvfs(path, &info) != 0) {
        return ps_fail_errno(errno, "look at the disk of %s", PS_PATH_SHOWN(path));
    }
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return ps_ok();
}

ps_status ps_dir_make(const char *path)
{
    char *copy = ps_xstrdup(path);
    ps_status st = ps_ok();
    struct stat info;

    /* Makes each prefix that ends before a slash, then the whole path. */
    for (char *p = copy + (copy[0] == '/'); ps_is_ok(&st); p++) {
        char held = *p;

        if (held != '/' && held != '\0') {
            continue;
        }
        *p = '\0';
        if (mkdir(copy, 0755) != 0 && errno != EEXIST) {
            st = ps_fail_errno(errno, "make directory %s", PS_PATH_SHOWN(copy));
        }
        *p = held;
        if (held == '\0') {
            break;
        }
    }
    free(copy);
    if (ps_is_ok(&st) && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))) {
        st = ps_fail_errno(ENOTDIR, "make directory %s", PS_PATH_SHOWN(path));
    }
    return st;
}

ps_status ps_dir_make_for(const char *path)
{
    char *dir = dir_of(path);
    ps_status st = ps_dir_make(dir);

    free(dir);
    return st;
}

void ps_files_private(void)
{
    umask(S_IRWXG | S_IRWXO);
}

/* Removes the permissions of group and others from the entry `name` of a folder, if the entry
 * exists and is owned by this process's user. */
static void close_to_others(const char *folder, const char *name)
{
    ps_strbuf path = {0};
    struct stat held;

    ps_strbuf_printf(&path, "%s/%s", folder, name);
    if (stat(path.data, &held) == 0 && held.st_uid == geteuid() &&
        (held.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        /* a failure is ignored: what is below the entry has permissions of its own */
        (void)!chmod(path.data, held.st_mode & S_IRWXU);
    }
    ps_strbuf_fini(&path);
}

ps_status ps_dir_lock(const char *path, const char *const *names, int *fd)
{
    ps_strbuf file = {0};
    ps_status st = ps_dir_make(path);
    int held;

    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_strbuf_printf(&file, "%s/lock", path);
    close_to_others(path, "lock");
    held = open(file.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (held < 0) {
        st = ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(file.data));
    } else if (flock(held, LOCK_EX | LOCK_NB) != 0) {
        st = errno == EWOULDBLOCK
                 ? ps_fail(PS_UNAVAILABLE, "%s is in use by another process", PS_PATH_SHOWN(path))
                 : ps_fail_errno(errno, "lock %s", PS_PATH_SHOWN(file.data));
        close(held);
    } else {
        *fd = held;
        for (; *names != NULL; names++) {
            close_to_others(path, *names);
        }
    }
    ps_strbuf_fini(&file);
    return st;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)where;
    if (kind == FTW_DNR) {
        errno = EACCES;
        return -1;
    }
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

ps_status ps_dir_remove(const char *path)
{
    if (nftw(path, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0 &&
        errno != ENOENT) {
        return ps_fail_errno(errno, "remove %s", PS_PATH_SHOWN(path));
    }
    return ps_ok();
}

ps_status ps_path_join(char *out, size_t cap, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    bool needs_slash = n > 0 && dir[n - 1] != '/';
    int len = snprintf(out, cap, "%s%s%s", dir, needs_slash ? "/" : "", name);

    if (len < 0 || (size_t)len >= cap) {
        return ps_fail(PS_OUT_OF_RANGE, "path is too long: ...%s", PS_PATH_SHOWN(name));
    }
    return ps_ok();
}

bool ps_name_is_safe(const char *name)
{
    size_t n = strnlen(name, PS_NAME_MAX + 1);

    return n > 0 && n <= PS_NAME_MAX && name[0] != '.' && strstr(name, "..") == NULL &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                        "0123456789._()-") == n;
}

/* Returns how many names `path` has between its slashes, or 0 if one of them is not safe (or is
 * empty). */
static size_t count_names(const char *path)
{
    size_t count = 0;

    for (;;) {
        char name[PS_NAME_MAX + 1];
        size_t n = strcspn(path, "/");

        if (n > PS_NAME_MAX) {
            return 0;
        }
        memcpy(name, path, n);
        name[n] = '\0';
        if (!ps_name_is_safe(name)) {
            return 0;
        }
        count++;
        if (path[n] == '\0') {
            return count;
        }
        path += n + 1;
    }
}

bool ps_file_name_is_safe(const char *name)
{
    size_t count = strnlen(name, PS_NAME_MAX + 1) > PS_NAME_MAX ? 0 : count_names(name);

    return count == 1 || count == 2;
}

bool ps_path_is_safe(const char *path)
{
    size_t count = strnlen(path, PS_PATH_MAX + 1) > PS_PATH_MAX ? 0 : count_names(path);

    return count >= 1 && count <= PATH_NAMES_MAX;
}

/* Writes the real path of `path` below `dir` to *real, which the caller frees also after a failure,
 * and the length of the real path of `dir` to *top; 0 for "/". Returns INVALID_ARGUMENT if links
 * lead out of `dir`, else the error of the file system. */
static ps_status resolve_below(const char *dir, const char *path, char **real, size_t *top)
{
    char *real_dir = realpath(dir, NULL);
    ps_strbuf joined = {0};
    ps_status st = ps_ok();
    size_t n;

    *real = NULL;
    if (real_dir == NULL) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(dir));
    }
    n = strcmp(real_dir, "/") == 0 ? 0 : strlen(real_dir);
    ps_strbuf_printf(&joined, "%s/%s", n == 0 ? "" : real_dir, path);
    *real = realpath(joined.data, NULL);
    if (*real == NULL) {
        st =
            ps_fail_errno(errno == ENOTDIR ? ENOENT : errno, "open %s", PS_PATH_SHOWN(joined.data));
    } else if (strncmp(*real, real_dir, n) != 0 || (*real)[n] != '/') {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s leads out of its folder", PS_PATH_SHOWN(path));
    }
    *top = n;
    ps_strbuf_fini(&joined);
    free(real_dir);
    return st;
}

ps_status ps_path_below(char *out, size_t cap, const char *dir, const char *path)
{
    char *real;
    size_t top;
    ps_status st = resolve_below(dir, path, &real, &top);

    if (ps_is_ok(&st)) {
        st = ps_path_join(out, cap, "", real);
    }
    free(real);
    return st;
}

/* --- files of others -------------------------------------------------------------- */

/* O_NONBLOCK because opening a FIFO would wait for a writer; reads of regular files ignore it. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* Takes over the descriptor `opened`: returns it as *fd if it is a regular file, else closes it and
 * fails. */
static ps_status take_regular(int opened, const char *path, int *fd, struct stat *facts)
{
    struct stat held;

    if (opened < 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
    }
    if (fstat(opened, &held) != 0 || !S_ISREG(held.st_mode)) {
        close(opened);
        return ps_fail(PS_INVALID_ARGUMENT, "%s is not a regular file", PS_PATH_SHOWN(path));
    }
    if (facts != NULL) {
        *facts = held;
    }
    *fd = opened;
    return ps_ok();
}

ps_status ps_file_open(const char *path, int *fd, struct stat *facts)
{
    return take_regular(open(path, OPEN_FLAGS), path, fd, facts);
}

/* Opens the file `rest`, names with slashes between them, below the folder `at` for reading;
 * follows no link. Changes `rest` and closes `at`. Returns the descriptor, or -1 with errno. */
static int open_names(int at, char *rest)
{
    while (at >= 0) {
        size_t n = strcspn(rest, "/");
        bool is_last = rest[n] == '\0';
        int below;

        rest[n] = '\0';
        below = openat(at, rest,
                       O_NOFOLLOW | (is_last ? (int)OPEN_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC));
        close(at); /* close keeps the errno of openat, as the descriptor is valid */
        at = below;
        if (is_last) {
            break;
        }
        rest += n + 1;
    }
    return at;
}

ps_status ps_file_open_below(const char *dir, const char *path, int *fd, struct stat *facts)
{
    char *real;
    size_t top;
    ps_status st = resolve_below(dir, path, &real, &top);

    if (ps_is_ok(&st)) {
        int at;

        real[top] = '\0';
        at = open(top == 0 ? "/" : real, O_PATH | O_DIRECTORY | O_CLOEXEC);
        st = take_regular(open_names(at, real + top + 1), path, fd, facts);
    }
    free(real);
    return st;
}

static bool is_temporary(const char *name)
{
    size_t n = strlen(name);

    return name[0] == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

void ps_dir_sweep(const char *dir)
{
    DIR *open = opendir(dir);
    const struct dirent *at;

    while (open != NULL && (at = readdir(open)) != NULL) {
        char path[4096];
        ps_status st = ps_path_join(path, sizeof path, dir, at->d_name);

        if (is_temporary(at->d_name) && ps_is_ok(&st)) {
            st = ps_dir_remove(path);
        }
        (void)st;
    }
    if (open != NULL) {
        closedir(open);
    }
}
