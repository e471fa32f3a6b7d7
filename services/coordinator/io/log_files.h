/* SPDX-License-Identifier: Apache-2.0 */
/* log_files.h - finds the logs of nodes in a job's folder, also those of lost attempts. */
#ifndef PS_COORDINATOR_LOG_FILES_H
#define PS_COORDINATOR_LOG_FILES_H

#include "services/coordinator/domain/commit.h"
#include "services/coordinator/io/artifacts.h"

enum { PS_LOST_LOGS_MAX = 100 }; /* most logs of lost attempts that are listed */

typedef struct ps_log_file {
    char name[PS_NAME_MAX + 1];
    char node_id[PS_COMMIT_NODE_ID_MAX];
    uint32_t attempt;
} ps_log_file;

/* Lists the logs of `attempt`, and the newest PS_LOST_LOGS_MAX logs of earlier attempts. The newest
 * attempt comes first; the nodes of an attempt are in the order of their ids. The caller frees
 * *out. Any thread; waits for the disk. */
PS_MUST_USE ps_status ps_log_files_list(const char *folder, const char *title, uint32_t attempt,
                                        ps_log_file **out, size_t *count);

#endif
