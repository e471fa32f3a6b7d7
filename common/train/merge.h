/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - a plan, as those who merge contributions see it. */
#ifndef PS_COMMON_TRAIN_MERGE_H
#define PS_COMMON_TRAIN_MERGE_H

#include "common/job/plan.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

/* Creates a store of these slices of the job's layout (ascending; none is allowed), with their
 * initial weights one after the other, and of sparse tables, which it takes; NULL: none here. */
ps_store *ps_merge_store(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights, ps_tables *tables);

/* May a worker find that a step went on without it? With redundancy, where one
 * holder of a block is enough, and under policies that leave workers behind. */
bool ps_merge_may_overtake(const ps_plan *plan);

/* Creates the sparse tables of a plan that has some, for the virtual shards that `placement` gives
 * `server`; with placement NULL for all virtual shards. The caller owns them. */
ps_tables *ps_merge_tables(const ps_plan *plan, const ps_placement *placement, uint32_t server);

/* The same to read from: rows of all servers, which files may bring without their state. */
ps_tables *ps_merge_values(const ps_plan *plan);

/* Rows that such tables start from: files of any servers, in order, which must be all
 * (tables_file.h). heads_only: only what their heads say is checked, and nothing is taken in.
 *
 * What ps_file_read, ps_tables_files_take and ps_tables_files_end fail with, with the file's name;
 * then some may have been taken in. */
PS_MUST_USE ps_status ps_merge_read_tables(ps_tables *tables, const char *const *paths,
                                           size_t count, bool heads_only);

/* What the file of a table is to hold at the end of the job. */
ps_table_kind ps_merge_table_kind(const ps_plan *plan);

/* Returns the part that has a key of any table, and whether a part has any. */
uint32_t ps_merge_part_of(const ps_placement *placement, uint64_t key);
bool ps_merge_has_rows(const ps_placement *placement, uint32_t part);

#endif
