/* SPDX-License-Identifier: Apache-2.0 */
/* update.h - what a worker sends for a step and how servers merge it.
 *
 * Letters: S block size, K block count, r redundancy; g_b the mean gradient of
 * block b. A worker multiplies the gradient of the summed loss of a block by
 * block_scale; a server multiplies the sum of all contributions to a clock by
 * merge_scale. To add one: common/update/NAME.c, a line in list.h, one in
 * CMakeLists.txt.
 */
#ifndef PS_COMMON_UPDATE_UPDATE_H
#define PS_COMMON_UPDATE_UPDATE_H

#include "common/base/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_update_facts {
    uint32_t block_size, block_count, redundancy;
} ps_update_facts;

typedef struct ps_update {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */

    /* true: one contribution for each block held, and the server counts every
     * block once, whoever of its holders brings it. false: one a step, the sum
     * over the blocks held; the contributor is the worker. */
    bool per_block;

    float (*block_scale)(const ps_update_facts *f); /* gradient: 1/S */
    float (*merge_scale)(const ps_update_facts *f); /* gradient: 1/K */
} ps_update;

const ps_update *ps_update_find(const char *name);
void ps_update_each(void (*fn)(const ps_update *update, void *arg), void *arg);

#endif
