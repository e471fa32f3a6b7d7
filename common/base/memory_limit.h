/* SPDX-License-Identifier: Apache-2.0 */
/* memory_limit.h - how much memory this process may take. */
#ifndef PS_COMMON_BASE_MEMORY_LIMIT_H
#define PS_COMMON_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* Returns the bytes of the host's memory, or of the smallest limit that a control group of this
 * process sets, if that is less; 0: unknown. Reads files. */
uint64_t ps_memory_limit(void);

/* Returns the smallest limit of the control groups that the file `list` names, as
 * /proc/self/cgroup, and of those above them; UINT64_MAX: none. `root` is where they are mounted:
 * /sys/fs/cgroup, with memory.max of version 2, or memory/.../memory.limit_in_bytes of version 1.
 */
uint64_t ps_memory_limit_of_groups(const char *list, const char *root);

#endif
