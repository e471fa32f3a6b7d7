/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h - the virtual shards of a job: the parts into which slices and rows are divided.
 *
 * Slice i is of virtual shard i % PS_SHARDS, a row of that of its key (ps_table_shard_of).
 * Placement maps each to a server. Any thread.
 */
#ifndef PS_COMMON_BASE_SHARDS_H
#define PS_COMMON_BASE_SHARDS_H

enum { PS_SHARDS = 256 };

#endif
