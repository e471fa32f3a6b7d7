/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - see snapshot.h. */
#include "common/base/snapshot.h"

#include "common/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED_MS = 5000 }; /* longest wait for the end of a copy that was killed */

/* Has the kernel end this process (the copy) before others if memory runs out. */
static void be_the_first(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t n = write(fd, "1000", 4);

        (void)n; /* if it failed, the kernel chooses this process no sooner than others */
        close(fd);
    }
}

/* Runs in the copied process: writes the state to `fd` and exits with the code of the result. Has
 * the kernel kill the copy when its parent ends. */
static _Noreturn void be_copy(ps_snapshot_fn *write, void *arg, int fd, pid_t parent)
{
    ps_status st;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(PS_ABORTED);
    }
    be_the_first();
    st = write(arg, fd);
    _exit((int)st.code);
}

static int open_memory(void)
{
    return memfd_create("psgd-snapshot", MFD_CLOEXEC);
}

static ps_snapshot begin(ps_snapshot_fn *write, void *arg)
{
    ps_snapshot s = {.fd = open_memory(), .copy_fd = -1, .result = PS_RESOURCE_EXHAUSTED};
    pid_t parent = getpid(), copy;
    ps_status st;

    if (s.fd < 0) {
        return s;
    }
    copy = fork();
    if (copy == 0) {
        be_copy(write, arg, s.fd, parent);
    }
    s.copy_fd = copy > 0 ? (int)syscall(SYS_pidfd_open, copy, 0) : -1;
    if (s.copy_fd >= 0) {
        s.copy = copy;
        return s;
    }
    /* without a pidfd nobody could wait for the copy with a deadline: the parent writes instead */
    if (copy > 0) {
        (void)kill(copy, SIGKILL);
        (void)waitpid(copy, NULL, 0);
    }
    st = ps_snapshot_empty(s.fd);
    s.result = ps_is_ok(&st) ? write(arg, s.fd).code : st.code;
    return s;
}

ps_snapshot ps_snapshot_begin(ps_snapshot_fn *write, void *arg)
{
    int64_t began_us = ps_clock_us(), before_us = ps_clock_thread_us();
    ps_snapshot s = begin(write, arg);

    s.stood_us = ps_clock_us() - began_us;
    s.spent_us = ps_clock_thread_us() - before_us;
    return s;
}

ps_status ps_snapshot_blank(size_t size, ps_snapshot *out)
{
    *out = (ps_snapshot){.fd = open_memory(), .copy_fd = -1, .result = PS_OK};
    if (out->fd < 0 || ftruncate(out->fd, (off_t)size) != 0) {
        ps_snapshot_drop(out);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a file of %zu bytes", size);
    }
    return ps_ok();
}

/* Waits until the copy has ended, for about wait_us microseconds at most. Returns false if it has
 * not. Else *how is its status, as of waitpid, and its descriptor is closed. */
static bool has_ended(ps_snapshot *s, int64_t wait_us, int *how)
{
    struct pollfd p = {.fd = s->copy_fd, .events = POLLIN};
    int64_t until_us = ps_clock_us() + wait_us, left_us = wait_us;
    pid_t got;

    while (poll(&p, 1, (int)(left_us / 1000) + 1) <= 0) {
        left_us = until_us - ps_clock_us();
        if (left_us <= 0) {
            return false;
        }
    }
    do {
        got = waitpid(s->copy, how, 0);
    } while (got < 0 && errno == EINTR);
    close(s->copy_fd);
    s->copy = 0;
    s->copy_fd = -1;
    return true;
}

ps_status ps_snapshot_wait(ps_snapshot *s, int64_t wait_us)
{
    int how = 0;

    if (s->copy > 0) {
        if (!has_ended(s, wait_us, &how)) {
            return ps_fail(PS_DEADLINE_EXCEEDED, "the copy of the process does not end");
        }
        if (!WIFEXITED(how)) {
            return ps_fail(PS_INTERNAL, "the copy of the process was killed by signal %d",
                           WIFSIGNALED(how) ? WTERMSIG(how) : 0);
        }
        s->result = (ps_code)WEXITSTATUS(how);
    }
    return s->result == PS_OK ? ps_ok()
                              : ps_fail(s->result, "the state could not be written to memory");
}

void ps_snapshot_drop(ps_snapshot *s)
{
    int how;

    if (s->copy > 0) {
        (void)kill(s->copy, SIGKILL);
        (void)has_ended(s, (int64_t)KILLED_MS * 1000, &how);
    }
    if (s->copy_fd >= 0) {
        close(s->copy_fd);
    }
    if (s->fd >= 0) {
        close(s->fd);
    }
    *s = (ps_snapshot){.fd = -1, .copy_fd = -1};
}

uint64_t ps_snapshot_size(const ps_snapshot *s)
{
    struct stat what;

    return s->fd >= 0 && fstat(s->fd, &what) == 0 ? (uint64_t)what.st_size : 0;
}

ssize_t ps_spliced_read(const ps_spliced *file, void *to, size_t len, uint64_t at)
{
    uint64_t end = file->at + file->common_size, left = file->at > at ? file->at - at : end - at;

    if (file->common < 0 || at >= end) {
        at -= file->common < 0 ? 0 : file->common_size;
        return pread(file->own, to, len, (off_t)at);
    }
    len = len < left ? len : (size_t)left;
    return at < file->at ? pread(file->own, to, len, (off_t)at)
                         : pread(file->common, to, len, (off_t)(at - file->at));
}

/* Writes all bytes at offset `at` of the file; if `at` is negative, at the descriptor's own
 * position, behind what was written so last. */
static ps_status write_all(int fd, off_t at, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = at < 0 ? write(fd, bytes, len) : pwrite(fd, bytes, len, at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "write to memory: errno %d", errno);
        }
        bytes += n;
        len -= (size_t)n;
        at = at < 0 ? at : at + n;
    }
    return ps_ok();
}

ps_status ps_snapshot_empty(int fd)
{
    return ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0
               ? ps_ok()
               : ps_fail(PS_INTERNAL, "a file in memory cannot be emptied: errno %d", errno);
}

ps_status ps_snapshot_write(void *fd, const void *bytes, size_t len)
{
    return write_all(*(const int *)fd, -1, bytes, len);
}

ps_status ps_snapshot_put(int fd, uint64_t at, const void *bytes, size_t len)
{
    return write_all(fd, (off_t)at, bytes, len);
}
