/* SPDX-License-Identifier: Apache-2.0 */
/* joblog.c - see joblog.h. */
#include "common/node/joblog.h"

#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct ps_joblog {
    int fd;
    _Atomic uint64_t size; /* of whole lines; grows only under the log's lock */
};

static void add_line(void *arg, ps_log_level level, const char *line)
{
    ps_joblog *log = arg;
    size_t n = strlen(line);
    struct iovec parts[2] = {{(void *)line, n}, {(char[]){'\n'}, 1}};
    uint64_t size = atomic_load(&log->size);
    ssize_t written;

    (void)level;
    if (size + n + 1 > PS_JOBLOG_MAX) {
        return;
    }
    written = pwritev(log->fd, parts, 2, (off_t)size);
    if (written == (ssize_t)(n + 1)) { /* else the next line overwrites it */
        atomic_store(&log->size, size + n + 1);
    }
}

ps_status ps_joblog_open(const char *path, ps_joblog **out)
{
    ps_joblog *log;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0) {
        return ps_fail_errno(errno, "open the job's log %s", path);
    }
    log = ps_xcalloc(1, sizeof *log);
    log->fd = fd;
    ps_log_set_sink(add_line, log);
    *out = log;
    return ps_ok();
}

void ps_joblog_close(ps_joblog *log)
{
    if (log != NULL) {
        ps_log_set_sink(NULL, NULL);
        close(log->fd);
        free(log);
    }
}

uint64_t ps_joblog_size(const ps_joblog *log)
{
    return atomic_load(&log->size);
}

size_t ps_joblog_read(const ps_joblog *log, uint64_t at, void *bytes, size_t cap)
{
    uint64_t size = ps_joblog_size(log);
    ssize_t n;

    if (at >= size) {
        return 0;
    }
    n = pread(log->fd, bytes, cap < size - at ? cap : (size_t)(size - at), (off_t)at);
    return n > 0 ? (size_t)n : 0;
}
