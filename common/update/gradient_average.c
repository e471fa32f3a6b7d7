/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_average.c - one contribution per worker and step, already its share of the average:
 * the sum over its blocks of g_b / (K r), with the mean gradient g_b of block b. Of K blocks each
 * is held by r workers, so the sum over all workers is the mean over blocks. */
#include "common/update/update.h"

static float average_block_scale(const ps_update_facts *f)
{
    return (float)(1.0 / ((double)f->block_size * (double)f->block_count * (double)f->redundancy));
}

const ps_update ps_update_gradient_average = {
    .name = "gradient_average",
    .summary = "each worker's share of the mean gradient over its blocks; servers add",
    .per_block = false,
    .block_scale = average_block_scale,
    .merge_scale = ps_update_merge_sum,
};
