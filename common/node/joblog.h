/* SPDX-License-Identifier: Apache-2.0 */
/* joblog.h - the node's log of one job: every line the process logs meanwhile.
 *
 * A file that only grows, up to PS_JOBLOG_MAX; read from any place on for
 * heartbeats and Collect. Lines come from any thread, the rest is the loop's.
 */
#ifndef PS_COMMON_NODE_JOBLOG_H
#define PS_COMMON_NODE_JOBLOG_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_JOBLOG_MAX = 64 << 20 }; /* bytes; what comes later is left out */

typedef struct ps_joblog ps_joblog;

/* Makes the file and becomes the sink of the process's log. */
PS_MUST_USE ps_status ps_joblog_open(const char *path, ps_joblog **out);
void ps_joblog_close(ps_joblog *log); /* NULL is allowed; the file stays */

uint64_t ps_joblog_size(const ps_joblog *log); /* bytes so far */

/* Reads at most cap bytes from `at` on; returns how many. */
size_t ps_joblog_read(const ps_joblog *log, uint64_t at, void *bytes, size_t cap);

#endif
