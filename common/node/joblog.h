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
    PS_JOBLOG_MAX = 64 << 20,    /* bytes; later lines are dropped */
    PS_JOBLOG_WAITING = 4 << 20, /* bytes that wait for the disk; lines beyond it are dropped */
    PS_JOBLOG_KEPT = 256 << 10   /* at least so many of the newest bytes stay in memory */
};

typedef struct ps_joblog ps_joblog;

typedef struct ps_joblog_conf {
    ps_tasks *tasks; /* write and read the file; kept */
    /* Called on the loop's thread when a task has read back bytes that ps_joblog_read needed. */
    void (*has_read)(void *arg);
    void *arg;
} ps_joblog_conf;

/* Creates the file and makes the log the sink of the process's log. Waits for the disk, so call it
 * in a task. Any thread. */
PS_MUST_USE ps_status ps_joblog_open(const char *path, const ps_joblog_conf *conf, ps_joblog **out);

/* Ends the sink. A task then writes what is left and closes the file; the log is freed after it.
 * NULL is allowed. */
void ps_joblog_close(ps_joblog *log);

/* Returns the bytes logged so far: whole lines. */
uint64_t ps_joblog_size(ps_joblog *log);

/* Copies at most cap bytes from offset `at`, and returns how many. Returns 0 if there are none, or
 * if a task reads them back from the file; has_read is called when the task has. Never blocks. */
size_t ps_joblog_read(ps_joblog *log, uint64_t at, void *bytes, size_t cap);

/* A request to write all lines logged so far to the file. */
typedef struct ps_joblog_flush {
    ps_task task;  /* the caller sets its `done` */
    uint64_t size; /* set for `done`: bytes in the file; fewer than logged if the disk is full */
    ps_joblog *log;
} ps_joblog_flush;

/* Submits the request. It may end after ps_joblog_close. */
void ps_joblog_start_flush(ps_joblog *log, ps_joblog_flush *flush);

#endif
