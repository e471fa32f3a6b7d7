/* SPDX-License-Identifier: Apache-2.0 */
/* slow_disk.c - to be loaded before libc (LD_PRELOAD): every write and sync of a file below
 * $SLOW_DISK_DIR takes $SLOW_DISK_MS milliseconds longer, once the file $SLOW_DISK_ON exists. So
 * does every read at an offset if $SLOW_DISK_READS is set.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Returns whether the file is below $SLOW_DISK_DIR, and the disk is slow now. */
static bool is_slow(int fd)
{
    const char *dir = getenv("SLOW_DISK_DIR"), *on = getenv("SLOW_DISK_ON");
    char link[40], path[4096];
    ssize_t n;

    if (!dir || !on || access(on, F_OK) != 0) {
        return false;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n <= 0) {
        return false;
    }
    path[n] = '\0';
    return strncmp(path, dir, strlen(dir)) == 0;
}

static void wait_for_disk(int fd)
{
    const char *ms = getenv("SLOW_DISK_MS");

    if (is_slow(fd)) {
        poll(NULL, 0, ms ? atoi(ms) : 0);
    }
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    ssize_t (*real)(int, const void *, size_t);

    *(void **)&real = dlsym(RTLD_NEXT, "write");
    wait_for_disk(fd);
    return real(fd, bytes, n);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    wait_for_disk(fd);
    return real(fd, bytes, n, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    ssize_t (*real)(int, const void *, size_t, off_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    wait_for_disk(fd);
    return real(fd, bytes, n, at);
}

ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t at)
{
    ssize_t (*real)(int, const struct iovec *, int, off64_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pwritev64");
    wait_for_disk(fd);
    return real(fd, pieces, count, at);
}

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pwritev");
    wait_for_disk(fd);
    return real(fd, pieces, count, at);
}

ssize_t pread64(int fd, void *bytes, size_t n, off64_t at)
{
    ssize_t (*real)(int, void *, size_t, off64_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pread64");
    if (getenv("SLOW_DISK_READS") != NULL) {
        wait_for_disk(fd);
    }
    return real(fd, bytes, n, at);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    ssize_t (*real)(int, void *, size_t, off_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pread");
    if (getenv("SLOW_DISK_READS") != NULL) {
        wait_for_disk(fd);
    }
    return real(fd, bytes, n, at);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    ssize_t (*real)(int, const struct iovec *, int);

    *(void **)&real = dlsym(RTLD_NEXT, "writev");
    wait_for_disk(fd);
    return real(fd, pieces, count);
}

int fsync(int fd)
{
    int (*real)(int);

    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    wait_for_disk(fd);
    return real(fd);
}

int fdatasync(int fd)
{
    int (*real)(int);

    *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk(fd);
    return real(fd);
}
