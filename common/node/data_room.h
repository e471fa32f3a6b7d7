/* SPDX-License-Identifier: Apache-2.0 */
/* data_room.h - bounds the disk space of received data sets, by removing the least recently used
 * ones.
 *
 * Each set is a folder named by its SHA-256. The folder's modification time is the time of its last
 * use, so the order survives a restart. A folder whose name has a dot after the SHA-256 is a set
 * that is being received (data_store.h). Entries with other names are left alone and not counted.
 * Any thread, but ps_data_room_trim on one thread at a time. */
#ifndef PS_COMMON_NODE_DATA_ROOM_H
#define PS_COMMON_NODE_DATA_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the set of this name is in use. */
typedef bool ps_data_in_use_fn(void *arg, const char *name);

/* Removes sets in `folder`, the least recently used first, until the others have at most
 * `keep_bytes`. Never removes a set that is in use or being received. Returns the bytes of all sets
 * that remain, which are more than keep_bytes if not enough could be removed. */
uint64_t ps_data_room_trim(const char *folder, uint64_t keep_bytes, ps_data_in_use_fn *is_in_use,
                           void *arg);

/* Records that the set in the folder `path` is used now. Does nothing if there is none. */
void ps_data_room_touch(const char *path);

#endif
