/* SPDX-License-Identifier: Apache-2.0 */
/* explain_files.h - what files of a job say about what bounds it. Blocks on the disk. */
#ifndef PS_COORDINATOR_EXPLAIN_FILES_H
#define PS_COORDINATOR_EXPLAIN_FILES_H

#include "common/explain/explain_ranks.h"
#include "common/explain/explain_steps.h"
#include "common/explain/explain_times.h"

/* Reads from summary.json in the job's folder where the time of its ranks went, as
 * ps_explain_ranks_read. */
PS_MUST_USE ps_status ps_explain_read_summary(const char *folder, ps_explain_rank *ranks,
                                              size_t *n);

/* Reads the timeline `name` in the job's folder: its steps, and the times of ranks 0 to n - 1.
 * Fails with RESOURCE_EXHAUSTED if it is larger than 32 MiB, else as ps_explain_timeline. */
PS_MUST_USE ps_status ps_explain_read_timeline(const char *folder, const char *name,
                                               ps_explain_steps *steps, ps_explain_times *times,
                                               size_t n);

#endif
