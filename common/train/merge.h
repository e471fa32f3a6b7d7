/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - creates the state of a server from a plan: its store and its sparse tables. */
#ifndef PS_COMMON_TRAIN_MERGE_H
#define PS_COMMON_TRAIN_MERGE_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

/* Creates a store of slices (count) of the job's layout, given by ascending numbers; none is
 * allowed. `weights` has their initial values, one slice after the other. `tables`: the tables that
 * grow, which the store takes; NULL: it has none. */
ps_store *ps_merge_store(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights, ps_tables *tables);

/* Returns whether a step may end without the contribution of a worker. So it is with redundancy
 * under a deterministic policy, where one holder of a block is enough, and under policies that
 * close clocks before every worker has contributed. */
bool ps_merge_may_overtake(const ps_plan *plan);

/* Creates the tables of a plan that grow, for the virtual shards that `placement` gives to
 * `server`; if placement is NULL, for all virtual shards. The caller owns them. Returns NULL if the
 * plan has no table that grows. */
ps_tables *ps_merge_tables(const ps_plan *plan, const ps_placement *placement, uint32_t server);

/* Creates the tables of a plan that grow, for reading only and for all virtual shards: files may
 * bring rows without the optimizer's state. The caller owns them. */
ps_tables *ps_merge_values(const ps_plan *plan);

/* Reads files of tables into `tables`: the files (count) of all servers of a job, in the order that
 * tables_file.h asks for. heads_only: checks only the heads of the files and reads no row. Fails as
 * ps_file_read, ps_tables_files_take and ps_tables_files_end do, with the name of the file. The
 * rows of files before it are then in the tables. */
PS_MUST_USE ps_status ps_merge_read_tables(ps_tables *tables, const char *const *paths,
                                           size_t count, bool heads_only);

/* Returns whether the file of a table that the job leaves at its end is whole or has changes
 * only. */
ps_table_kind ps_merge_table_kind(const ps_plan *plan);

/* Returns the number of the part, in the placement, that has the row with this key of a table. */
uint32_t ps_merge_part_of(const ps_plan *plan, const ps_placement *placement, uint32_t table,
                          uint64_t key);
/* Returns whether each worker has all rows of the job's sparse tables and is given those that
 * change together with weights. So it is with a fixed vocabulary; true too without sparse tables.
 * Of tables that grow, workers pull rows by key. */
bool ps_merge_rows_are_followed(const ps_plan *plan);
/* Returns whether the job has tables that grow, whose rows workers pull by key. */
bool ps_merge_rows_are_asked_for(const ps_plan *plan);
/* Returns whether a part has rows of sparse tables. If tables grow, the first part of each server
 * has all rows of the server. With a fixed vocabulary, each part has the rows of its slices. */
bool ps_merge_has_rows(const ps_plan *plan, const ps_placement *placement, uint32_t part);

#endif
