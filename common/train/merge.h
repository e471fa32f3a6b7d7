/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - creates the state of a server from a plan: its store and its sparse tables. */
#ifndef PS_COMMON_TRAIN_MERGE_H
#define PS_COMMON_TRAIN_MERGE_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

/* Creates a store of these slices of the job's layout (ascending; none is allowed), with their
 * initial weights one after the other, and of tables that grow, which it takes; NULL: none here. */
ps_store *ps_merge_store(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights, ps_tables *tables);

/* Returns whether a step may end without the contribution of a worker: with redundancy, where one
 * holder of a block is enough, and under policies that close clocks before everybody has
 * contributed. */
bool ps_merge_may_overtake(const ps_plan *plan);

/* Creates the growing tables of a plan, for the virtual shards that `placement` gives `server`;
 * with placement NULL for all virtual shards. The caller owns them. Returns NULL if no table grows.
 */
ps_tables *ps_merge_tables(const ps_plan *plan, const ps_placement *placement, uint32_t server);

/* Creates tables for reading only, for all virtual shards: files may bring rows without the
 * optimizer's state. The caller owns them. */
ps_tables *ps_merge_values(const ps_plan *plan);

/* Reads table files into `tables`: the files (count) of all servers of a job, in order
 * (tables_file.h). With heads_only it checks only the heads of the files and reads no row. Fails as
 * ps_file_read, ps_tables_files_take and ps_tables_files_end do, with the name of the file; rows of
 * earlier files are then in the tables. */
PS_MUST_USE ps_status ps_merge_read_tables(ps_tables *tables, const char *const *paths,
                                           size_t count, bool heads_only);

/* Returns what the file of a table holds at the end of the job. */
ps_table_kind ps_merge_table_kind(const ps_plan *plan);

/* Returns the part that has the row with this key of a table. */
uint32_t ps_merge_part_of(const ps_plan *plan, const ps_placement *placement, uint32_t table,
                          uint64_t key);
/* Returns whether workers have all rows, those of a fixed vocabulary, and are given the rows that
 * change together with weights. Else they pull rows by key. */
bool ps_merge_rows_are_followed(const ps_plan *plan);
/* Returns whether the job has rows that workers pull by key. */
bool ps_merge_rows_are_asked_for(const ps_plan *plan);
/* Returns whether a part has rows: of tables that grow, the first part of each server has all of
 * its server's; of a fixed vocabulary, parts have those of their slices. */
bool ps_merge_has_rows(const ps_plan *plan, const ps_placement *placement, uint32_t part);

#endif
