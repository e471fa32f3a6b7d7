/* SPDX-License-Identifier: Apache-2.0 */
/* joblog.h - the node's log of one job: every line that the process logs during the attempt.
 *
 * A thread that logs appends to memory and never waits for the disk. Tasks write the lines to the
 * file, in their order, and read old lines back. Heartbeats read at any offset; Collect reads the
 * file. The log only grows, up to PS_JOBLOG_MAX.
 *
 * Unless a comment says otherwise, the functions are for the loop's thread.
 */
#ifndef PS_COMMON_NODE_JOBLOG_H
#define PS_COMMON_NODE_JOBLOG_H

#include "common/base/status.h"
#include "common/rpc/tasks.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PS_JOBLOG_MAX = 64 << 20, /* most bytes of the log; later lines are dropped */
    /* most bytes that wait to be written to the disk; lines beyond it are dropped */
    PS_JOBLOG_WAITING = 4 << 20,
    PS_JOBLOG_KEPT = 256 << 10 /* at least this many of the newest bytes stay in memory */
};

typedef struct ps_joblog ps_joblog;

typedef struct ps_joblog_conf {
    ps_tasks *tasks; /* write and read the file; the log keeps the pointer */
    /* Called on the loop's thread when a task has read back bytes that ps_joblog_read needed. */
    void (*has_read)(void *arg);
    void *arg;
} ps_joblog_conf;

/* Creates the file and makes the process log into it too. Waits for the disk, so call it in a task.
 * Any thread. */
PS_MUST_USE ps_status ps_joblog_open(const char *path, const ps_joblog_conf *conf, ps_joblog **out);

/* Ends logging into this log. A task then writes what is left and closes the file; the log is freed
 * after that. NULL is allowed. */
void ps_joblog_close(ps_joblog *log);

/* Returns the bytes logged so far: whole lines. */
uint64_t ps_joblog_size(ps_joblog *log);

/* Copies at most `cap` bytes of the log, from offset `at`, and returns their number. Returns 0 if
 * there are none, or if a task has to read them back from the file first; has_read is called when
 * the task has done so. Never blocks. */
size_t ps_joblog_read(ps_joblog *log, uint64_t at, void *bytes, size_t cap);

/* A request to write all lines logged so far to the file. */
typedef struct ps_joblog_flush {
    ps_task task; /* the caller sets its `done` */
    /* set before `done`: bytes in the file; fewer than were logged if the disk is full */
    uint64_t size;
    ps_joblog *log;
} ps_joblog_flush;

/* Submits the request. It may end after ps_joblog_close. */
void ps_joblog_start_flush(ps_joblog *log, ps_joblog_flush *flush);

#endif
