/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - a plan, as those who merge contributions see it. */
#ifndef PS_COMMON_TRAIN_MERGE_H
#define PS_COMMON_TRAIN_MERGE_H

#include "common/job/plan.h"
#include "common/shard/shard.h"
#include "common/shard/tables.h"

/* A shard that holds these slices of the job's layout (ascending; none is
 * allowed), with their initial weights one after the other. */
ps_shard *ps_merge_shard(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights);

/* May a worker find that a step went on without it? With redundancy, where one
 * holder of a block is enough, and under policies that leave workers behind. */
bool ps_merge_may_overtake(const ps_plan *plan);

/* The sparse tables of a plan that has some, as far as server `server` has them, or whole. The
 * caller's. */
#define PS_MERGE_ALL UINT32_MAX
ps_tables *ps_merge_tables(const ps_plan *plan, uint32_t server);

/* Which of the servers has a key of any table. */
uint32_t ps_merge_server_of(const ps_plan *plan, uint64_t key);

#endif
