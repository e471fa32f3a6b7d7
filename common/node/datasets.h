/* SPDX-License-Identifier: Apache-2.0 */
/* datasets.h - data sets of a node: found, checked, loaded, kept for the next job.
 *
 * A set that a coordinator has sent lies under data_dir/datasets/<sha256>; a
 * set that is under data_path/<folder> already is used where it is, if it has the
 * checksum asked for. Hashing and loading are tasks. Loop thread.
 */
#ifndef PS_COMMON_NODE_DATASETS_H
#define PS_COMMON_NODE_DATASETS_H

#include "common/data/dataset.h"
#include "common/rpc/tasks.h"

typedef struct ps_datasets ps_datasets;

/* What a job wants. */
typedef struct ps_data_wish {
    ps_data_conf conf;
    char sha256[65];
} ps_data_wish;

/* `data` is NULL unless st is OK, else one reference for ps_datasets_put.
 * NOT_FOUND: this node has no such data set. */
typedef void ps_datasets_fn(void *arg, const ps_status *st, ps_dataset *data);

typedef struct ps_data_request ps_data_request;

/* data_path may be NULL. `tasks` is kept. */
ps_datasets *ps_datasets_create(ps_tasks *tasks, const char *data_dir, const char *data_path);

/* Nothing may be referenced, no request under way. NULL is allowed. */
void ps_datasets_destroy(ps_datasets *sets);

/* A reference if it is loaded already, else NULL. */
ps_dataset *ps_datasets_cached(ps_datasets *sets, const ps_data_wish *wish);

/* Looks for it and loads it; `fn` comes later, unless cancelled before. */
ps_data_request *ps_datasets_get(ps_datasets *sets, const ps_data_wish *wish, ps_datasets_fn *fn,
                                 void *arg);
/* `fn` is not called; what is loaded anyway is kept for others. NULL is allowed. */
void ps_datasets_cancel(ps_data_request *request);

/* Gives a reference back. NULL is allowed. The set used last stays loaded. */
void ps_datasets_put(ps_datasets *sets, ps_dataset *data);

/* A request is under way. */
bool ps_datasets_is_busy(const ps_datasets *sets);
/* Fires when none is any more; `idle` is kept. */
void ps_datasets_on_idle(ps_datasets *sets, void (*idle)(void *arg), void *arg);

/* Where a set of that checksum is stored; errors of ps_path_join. */
PS_MUST_USE ps_status ps_datasets_folder(const ps_datasets *sets, const char *sha256, char *out,
                                         size_t cap);

#endif
