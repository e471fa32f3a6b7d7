/* SPDX-License-Identifier: Apache-2.0 */
/* explain_files.h - what the timeline of a job says about what bounds it. Blocks on the disk. */
#ifndef PS_COORDINATOR_EXPLAIN_FILES_H
#define PS_COORDINATOR_EXPLAIN_FILES_H

#include "common/explain/explain_steps.h"
#include "common/explain/explain_times.h"

/* Reads the timeline `name` in the job's folder: its steps, and the times of ranks 0 to n - 1.
 * Fails with RESOURCE_EXHAUSTED if it is larger than 32 MiB, else as ps_explain_timeline. */
PS_MUST_USE ps_status ps_explain_read_timeline(const char *folder, const char *name,
                                               ps_explain_steps *steps, ps_explain_times *times,
                                               size_t n);

#endif
