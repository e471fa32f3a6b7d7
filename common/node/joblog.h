/* SPDX-License-Identifier: Apache-2.0 */
/* joblog.h - the node's log of one job: every line that the process logs during the attempt.
 *
 * The file only grows, up to PS_JOBLOG_MAX. Heartbeats and Collect read it at any offset. Any
 * thread may log; the functions here are for the loop's thread.
 */
#ifndef PS_COMMON_NODE_JOBLOG_H
#define PS_COMMON_NODE_JOBLOG_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_JOBLOG_MAX = 64 << 20 }; /* bytes; later lines are dropped */

typedef struct ps_joblog ps_joblog;

/* Creates the file and makes it the sink of the process's log. */
PS_MUST_USE ps_status ps_joblog_open(const char *path, ps_joblog **out);

/* Ends the sink and closes the file, which stays. NULL is allowed. */
void ps_joblog_close(ps_joblog *log);

/* Returns the bytes written so far. */
uint64_t ps_joblog_size(const ps_joblog *log);

/* Reads at most cap bytes from offset `at`. Returns how many. */
size_t ps_joblog_read(const ps_joblog *log, uint64_t at, void *bytes, size_t cap);

#endif
