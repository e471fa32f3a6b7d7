/* SPDX-License-Identifier: Apache-2.0 */
/* data_room.h - bounds the disk that received data sets take: the least recently used are removed.
 *
 * Each set is a folder named by its SHA-256. Its modification time is the time of its last use, so
 * the order survives a restart. A dot after the SHA-256 says that the set is being received
 * (data_store.h). Entries with other names are not of this store: they are left alone and not
 * counted. Any thread, but trim on one at a time.
 */
#ifndef PS_COMMON_NODE_DATA_ROOM_H
#define PS_COMMON_NODE_DATA_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the set of this name is in use. */
typedef bool ps_data_in_use_fn(void *arg, const char *name);

/* Removes sets below `folder`, the least recently used first, until the others have at most
 * `keep_bytes`. Never removes one that is in use or being received. Returns the bytes of all that
 * remain, which are more than keep_bytes if not enough could be removed. */
uint64_t ps_data_room_trim(const char *folder, uint64_t keep_bytes, ps_data_in_use_fn *is_in_use,
                           void *arg);

/* Records that the set in the folder `path` is used now. Does nothing if there is none. */
void ps_data_room_touch(const char *path);

#endif
