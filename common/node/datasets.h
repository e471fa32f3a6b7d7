/* SPDX-License-Identifier: Apache-2.0 */
/* datasets.h - finds, checks and loads the data sets of a node, and keeps them for the next job.
 *
 * A set that a coordinator has sent is in data_dir/datasets/<sha256>. If the node has the files of
 * a set in data_path, at most what was learned from all files is there. The bytes in data_dir are
 * bounded: the least recently used sets are removed (data_room.h). A set in data_path/<folder> is
 * used where it is, if it has the wanted checksum, and never removed. Hashing, loading and removing
 * are tasks. Unless a comment says otherwise, the functions are for the loop's thread. */
#ifndef PS_COMMON_NODE_DATASETS_H
#define PS_COMMON_NODE_DATASETS_H

#include "common/data/dataset.h"
#include "common/rpc/tasks.h"

typedef struct ps_datasets ps_datasets;

/* The data set that a job wants. */
typedef struct ps_data_wanted {
    ps_data_conf conf;
    char sha256[65];     /* SHA-256 of all files that the node needs */
    char own_sha256[65]; /* SHA-256 of these files without what was learned from all files
                            (learned.h) */
} ps_data_wanted;

/* Called with the result of ps_datasets_get. On OK `data` is a reference, which the receiver gives
 * back by ps_datasets_put; else NULL. NOT_FOUND: this node does not have the data set; has_own: it
 * has the set's own files, and lacks only what was learned from all of them. */
typedef void ps_datasets_fn(void *arg, const ps_status *st, bool has_own, ps_dataset *data);

typedef struct ps_data_request ps_data_request;

/* Creates the cache; keeps `tasks`, which run one at a time. data_path may be NULL. `room_bytes`
 * bounds the sets that were sent; 0: each is removed when no job uses it any more. Removes what is
 * beyond the bound and so waits for the disk: call it before the node serves. */
ps_datasets *ps_datasets_create(ps_tasks *tasks, const char *data_dir, const char *data_path,
                                uint64_t room_bytes);

/* Frees the cache. No set may be referenced and no request in flight. NULL is allowed. */
void ps_datasets_destroy(ps_datasets *sets);

/* Returns a reference to the set if it is loaded, else NULL. */
ps_dataset *ps_datasets_cached(ps_datasets *sets, const ps_data_wanted *wanted);

/* Looks for the set and loads it. Calls fn later, unless the request is cancelled before. */
ps_data_request *ps_datasets_get(ps_datasets *sets, const ps_data_wanted *wanted,
                                 ps_datasets_fn *fn, void *arg);

/* Cancels the request: fn is not called. A set that is loaded nevertheless is kept. NULL is
 * allowed. */
void ps_datasets_cancel(ps_data_request *request);

/* Gives a reference back. The set used last stays loaded. NULL is allowed. */
void ps_datasets_put(ps_datasets *sets, ps_dataset *data);

/* Returns whether a request or a removal is in flight. */
bool ps_datasets_is_busy(const ps_datasets *sets);

/* Sets a function that is called whenever the last request or removal in flight has ended. */
void ps_datasets_on_idle(ps_datasets *sets, void (*idle)(void *arg), void *arg);

/* Removes stored sets until a set of `bytes` that is to be received fits into the bound. Does
 * nothing if the bound is 0. Returns RESOURCE_EXHAUSTED if the set is larger than the bound, or if
 * sets in use leave too little room. Any thread; waits for the disk. */
PS_MUST_USE ps_status ps_datasets_make_room(ps_datasets *sets, const ps_data_wanted *wanted,
                                            uint64_t bytes);

/* Writes the path where a set with this checksum is stored. Fails as ps_path_join does. Any
 * thread. */
PS_MUST_USE ps_status ps_datasets_folder(const ps_datasets *sets, const char *sha256, char *out,
                                         size_t cap);

#endif
