/* SPDX-License-Identifier: Apache-2.0 */
/* plain_name.h - names of jobs, nodes and principals: letters that are safe in file names, in URIs
 * and on a command line. */
#ifndef PS_COMMON_BASE_PLAIN_NAME_H
#define PS_COMMON_BASE_PLAIN_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { PS_PLAIN_NAME_NODE = 64 }; /* most bytes of a node id, and of a principal's name */

/* Returns whether `name` is 1 to `most` bytes of A-Z a-z 0-9 . _ -. Any thread. */
bool ps_plain_name_is_valid(const char *name, size_t most);

#endif
