/* SPDX-License-Identifier: Apache-2.0 */
/* explain_files.h - reads from the timeline of a job what bounds its speed. Blocks on the disk. */
#ifndef PS_COORDINATOR_EXPLAIN_FILES_H
#define PS_COORDINATOR_EXPLAIN_FILES_H

#include "common/explain/explain_steps.h"
#include "common/explain/explain_times.h"

/* Reads the timeline `name` in the job's folder: the times of its steps, and of the ranks 0 to n -
 * 1. Returns RESOURCE_EXHAUSTED if the file has more than 32 MiB unpacked, NOT_FOUND or DATA_LOSS
 * if it cannot be read; else fails as ps_explain_timeline does. */
PS_MUST_USE ps_status ps_explain_read_timeline(const char *folder, const char *name,
                                               ps_explain_steps *steps, ps_explain_times *times,
                                               size_t n);

#endif
