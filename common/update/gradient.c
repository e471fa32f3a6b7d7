/* SPDX-License-Identifier: Apache-2.0 */
/* gradient.c - the mean gradient g_b of each of K blocks, averaged by the servers: (g_0 + ... +
 * g_(K-1)) / K. Each block counts once, however many workers hold it. */
#include "common/update/update.h"

static float gradient_block_scale(const ps_update_facts *f)
{
    return (float)(1.0 / (double)f->block_size);
}

static float gradient_merge_scale(const ps_update_facts *f)
{
    return (float)(1.0 / (double)f->block_count);
}

const ps_update ps_update_gradient = {
    .name = "gradient",
    .summary = "each block's mean gradient; servers count a block once and average over blocks",
    .per_block = true,
    .block_scale = gradient_block_scale,
    .merge_scale = gradient_merge_scale,
};
