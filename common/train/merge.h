/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - a plan, as those who merge contributions see it. */
#ifndef PS_COMMON_TRAIN_MERGE_H
#define PS_COMMON_TRAIN_MERGE_H

#include "common/job/plan.h"
#include "common/shard/shard.h"

/* A shard that holds these slices of the job's layout (ascending; none is
 * allowed), with their initial weights one after the other. */
ps_shard *ps_merge_shard(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights);

/* May a worker find that a step went on without it? With redundancy, where one
 * holder of a block is enough, and under policies that leave workers behind. */
bool ps_merge_may_overtake(const ps_plan *plan);

#endif
