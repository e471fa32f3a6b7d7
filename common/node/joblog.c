/* SPDX-License-Identifier: Apache-2.0 */
/* joblog.c - see joblog.h.
 *
 * All tasks of a log belong to one strand, so only one of them uses the file at a time, and the
 * task that closes the file is the last one. Code that holds the lock must not log, because the
 * log's sink takes the lock.
 */
#include "common/node/joblog.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ps_joblog {
    ps_joblog_conf conf;
    ps_strand strand;
    int fd;          /* the open file of the log; used by tasks only */
    ps_strbuf batch; /* used by tasks only: a copy of the bytes being written */
    ps_task write, close;

    /* Bytes of the file that were read back for ps_joblog_read, from offset piece_at on. While
     * is_reading, only the task `read` uses piece and piece_len, else only the loop's thread. */
    ps_task read;
    bool is_reading;
    uint64_t piece_at;
    size_t piece_len;
    char *piece; /* (PS_JOBLOG_KEPT); NULL: nothing was read back yet */

    pthread_mutex_t lock; /* guards the members below */
    /* bytes [tail_at, tail_at + len) of the log: the unwritten ones, and some before them */
    ps_strbuf tail;
    uint64_t tail_at;
    uint64_t written;     /* bytes in the file */
    bool is_write_queued; /* `write` was submitted, and write_done was not called yet */
    bool is_disk_full;    /* the disk did not take all of the last batch */
    bool is_closing;
};

static uint64_t size_of(const ps_joblog *log)
{
    return log->tail_at + log->tail.len;
}

/* --- writing ----------------------------------------------------------------- */

/* Drops written bytes from memory, but none of the log's newest PS_JOBLOG_KEPT bytes. Waits until
 * it can drop at least PS_JOBLOG_KEPT at once, so that moving the rest costs little. The caller
 * holds the lock. */
static void shrink(ps_joblog *log)
{
    uint64_t keep_from = size_of(log) > PS_JOBLOG_KEPT ? size_of(log) - PS_JOBLOG_KEPT : 0;
    size_t drop;

    keep_from = keep_from < log->written ? keep_from : log->written;
    if (keep_from < log->tail_at + PS_JOBLOG_KEPT) {
        return;
    }
    drop = (size_t)(keep_from - log->tail_at);
    memmove(log->tail.data, log->tail.data + drop, log->tail.len - drop);
    ps_strbuf_truncate(&log->tail, log->tail.len - drop);
    log->tail_at += drop;
}

/* Copies all bytes that are not written to `batch`. Returns whether there are any. */
static bool take_batch(ps_joblog *log)
{
    pthread_mutex_lock(&log->lock);
    ps_strbuf_clear(&log->batch);
    if (log->written < size_of(log)) {
        ps_strbuf_append(&log->batch, log->tail.data + (log->written - log->tail_at),
                         (size_t)(size_of(log) - log->written));
    }
    pthread_mutex_unlock(&log->lock);
    return log->batch.len > 0;
}

/* Writes the batch. Returns false if the disk took only a part of it. */
static bool write_batch(ps_joblog *log)
{
    size_t done = 0;

    while (done < log->batch.len) {
        ssize_t n = pwrite(log->fd, log->batch.data + done, log->batch.len - done,
                           (off_t)(log->written + done)); /* only tasks change `written` */

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    pthread_mutex_lock(&log->lock);
    log->written += done;
    log->is_disk_full = done < log->batch.len;
    shrink(log);
    pthread_mutex_unlock(&log->lock);
    return done == log->batch.len;
}

/* Writes all lines logged so far. Bytes that the disk does not take stay in memory. */
static void write_all(ps_joblog *log)
{
    while (take_batch(log) && write_batch(log)) {
    }
}

static void run_write(ps_task *task)
{
    write_all(PS_CONTAINER_OF(task, ps_joblog, write));
}

/* Submits the task again if lines were logged meanwhile. Does not after a failure: the next logged
 * line then submits it. */
static void write_done(ps_task *task)
{
    ps_joblog *log = PS_CONTAINER_OF(task, ps_joblog, write);
    bool is_wanted;

    pthread_mutex_lock(&log->lock);
    is_wanted = log->written < size_of(log) && !log->is_disk_full && !log->is_closing;
    log->is_write_queued = is_wanted;
    pthread_mutex_unlock(&log->lock);
    if (is_wanted) {
        ps_tasks_submit(log->conf.tasks, &log->strand, &log->write);
    }
}

static void add_line(void *arg, ps_log_level level, const char *line)
{
    ps_joblog *log = arg;
    size_t n = strlen(line) + 1;
    bool has_room, is_wanted;

    (void)level;
    pthread_mutex_lock(&log->lock);
    has_room =
        size_of(log) + n <= PS_JOBLOG_MAX && size_of(log) - log->written + n <= PS_JOBLOG_WAITING;
    if (has_room) {
        ps_strbuf_append(&log->tail, line, n - 1);
        ps_strbuf_putc(&log->tail, '\n');
    }
    is_wanted = log->written < size_of(log) && !log->is_write_queued;
    log->is_write_queued = log->is_write_queued || is_wanted;
    pthread_mutex_unlock(&log->lock);
    if (is_wanted) {
        ps_tasks_submit(log->conf.tasks, &log->strand, &log->write);
    }
}

/* --- life -------------------------------------------------------------------- */

ps_status ps_joblog_open(const char *path, const ps_joblog_conf *conf, ps_joblog **out)
{
    ps_joblog *log;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0) {
        return ps_fail_errno(errno, "open the job's log %s", path);
    }
    log = ps_xcalloc(1, sizeof *log);
    log->conf = *conf;
    log->fd = fd;
    log->write = (ps_task){.run = run_write, .done = write_done};
    pthread_mutex_init(&log->lock, NULL);
    ps_log_set_sink(add_line, log);
    *out = log;
    return ps_ok();
}

static void run_close(ps_task *task)
{
    ps_joblog *log = PS_CONTAINER_OF(task, ps_joblog, close);

    write_all(log);
    close(log->fd);
}

static void close_done(ps_task *task)
{
    ps_joblog *log = PS_CONTAINER_OF(task, ps_joblog, close);

    ps_strbuf_fini(&log->batch);
    ps_strbuf_fini(&log->tail);
    free(log->piece);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

void ps_joblog_close(ps_joblog *log)
{
    if (log != NULL) {
        ps_log_set_sink(NULL, NULL); /* no line is added after this */
        log->conf.has_read = NULL;
        pthread_mutex_lock(&log->lock);
        log->is_closing = true;
        pthread_mutex_unlock(&log->lock);
        log->close = (ps_task){.run = run_close, .done = close_done, .runs_at_end = true};
        ps_tasks_submit(log->conf.tasks, &log->strand, &log->close);
    }
}

static void run_flush(ps_task *task)
{
    ps_joblog_flush *flush = PS_CONTAINER_OF(task, ps_joblog_flush, task);

    write_all(flush->log);
    flush->size = flush->log->written;
}

void ps_joblog_start_flush(ps_joblog *log, ps_joblog_flush *flush)
{
    flush->log = log;
    flush->task.run = run_flush;
    ps_tasks_submit(log->conf.tasks, &log->strand, &flush->task);
}

/* --- reading ----------------------------------------------------------------- */

uint64_t ps_joblog_size(ps_joblog *log)
{
    uint64_t size;

    pthread_mutex_lock(&log->lock);
    size = size_of(log);
    pthread_mutex_unlock(&log->lock);
    return size;
}

static void run_read(ps_task *task)
{
    ps_joblog *log = PS_CONTAINER_OF(task, ps_joblog, read);
    ssize_t n = pread(log->fd, log->piece, PS_JOBLOG_KEPT, (off_t)log->piece_at);

    log->piece_len = n > 0 ? (size_t)n : 0;
}

static void read_done(ps_task *task)
{
    ps_joblog *log = PS_CONTAINER_OF(task, ps_joblog, read);

    log->is_reading = false;
    if (log->piece_len > 0 && log->conf.has_read != NULL) {
        log->conf.has_read(log->conf.arg);
    }
}

static void start_read(ps_joblog *log, uint64_t at)
{
    if (log->piece == NULL) {
        log->piece = ps_xmalloc(PS_JOBLOG_KEPT);
    }
    log->is_reading = true;
    log->piece_at = at;
    log->piece_len = 0;
    log->read = (ps_task){.run = run_read, .done = read_done};
    ps_tasks_submit(log->conf.tasks, &log->strand, &log->read);
}

/* Copies bytes of the log from offset `at` on, as far as [from, from + len), which begins at offset
 * from_at, has them. Returns their number. */
static size_t copy(const char *from, uint64_t from_at, size_t len, uint64_t at, void *bytes,
                   size_t cap)
{
    size_t skip = (size_t)(at - from_at), n = len - skip < cap ? len - skip : cap;

    memcpy(bytes, from + skip, n);
    return n;
}

size_t ps_joblog_read(ps_joblog *log, uint64_t at, void *bytes, size_t cap)
{
    size_t n = 0;
    bool is_old;

    pthread_mutex_lock(&log->lock);
    is_old = at < log->tail_at;
    if (!is_old && at < size_of(log)) {
        n = copy(log->tail.data, log->tail_at, log->tail.len, at, bytes, cap);
    }
    pthread_mutex_unlock(&log->lock);
    if (!is_old || log->is_reading) {
        return n;
    }
    if (at >= log->piece_at && at < log->piece_at + log->piece_len) {
        return copy(log->piece, log->piece_at, log->piece_len, at, bytes, cap);
    }
    start_read(log, at);
    return 0;
}
