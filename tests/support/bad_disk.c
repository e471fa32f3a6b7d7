/* SPDX-License-Identifier: Apache-2.0 */
/* bad_disk.c - to be loaded before libc (LD_PRELOAD): while the file $BAD_DISK_ON exists, a call
 * that concerns a file whose path has the text after the colon of its content fails: "fsync:TEXT",
 * "write:TEXT" (EIO) or "rename:TEXT" (of either path, ENOSPC). With a $ at the end of the text the
 * path has to end with it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns whether the call on a file of this path is to fail. */
static bool is_bad(const char *call, const char *path)
{
    const char *on = getenv("BAD_DISK_ON");
    char what[256];
    size_t len = strlen(call);
    ssize_t n;
    int fd = on != NULL ? open(on, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0) {
        return false;
    }
    n = read(fd, what, sizeof what - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    what[n] = '\0';
    if (strncmp(what, call, len) != 0 || what[len] != ':') {
        return false;
    }
    if (what[n - 1] == '$') {
        size_t end = (size_t)n - 1 - (len + 1), has = strlen(path);

        return has >= end && strncmp(path + has - end, what + len + 1, end) == 0;
    }
    return strstr(path, what + len + 1) != NULL;
}

static bool is_bad_fd(const char *call, int fd)
{
    char link[40], path[4096];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n <= 0) {
        return false;
    }
    path[n] = '\0';
    return is_bad(call, path);
}

int fsync(int fd)
{
    int (*real)(int);

    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (is_bad_fd("fsync", fd)) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    ssize_t (*real)(int, const void *, size_t);

    *(void **)&real = dlsym(RTLD_NEXT, "write");
    if (is_bad_fd("write", fd)) {
        errno = EIO;
        return -1;
    }
    return real(fd, bytes, n);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *);

    *(void **)&real = dlsym(RTLD_NEXT, "rename");
    if (is_bad("rename", from) || is_bad("rename", to)) {
        errno = ENOSPC;
        return -1;
    }
    return real(from, to);
}
