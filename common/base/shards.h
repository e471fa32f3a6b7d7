/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h - the virtual shards of a job: the parts into which slices and rows are divided.
 *
 * Slice i belongs to virtual shard i % PS_SHARDS, a row of a sparse table to the one that
 * ps_table_shard_of() computes from its id. Placement maps each virtual shard to a server. Any
 * thread.
 */
#ifndef PS_COMMON_BASE_SHARDS_H
#define PS_COMMON_BASE_SHARDS_H

enum { PS_SHARDS = 256 };

#endif
