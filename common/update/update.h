/* SPDX-License-Identifier: Apache-2.0 */
/* update.h - what a worker sends for a clock and how servers merge it.
 *
 * Letters: N workers, S block size, K block count, r redundancy, g_b the mean gradient of block
 * b. A worker multiplies the gradient of the summed loss of a block by block_scale. A server
 * multiplies the sum of all contributions to a clock by merge_scale. A clock is a step or, for
 * updates with `local` (local.h), a round of steps that a worker takes on its own replica.
 * docs/updates.md has formulas, sources and costs of all updates. To add one: write
 * common/update/NAME.c, add a line to list.h and one to CMakeLists.txt.
 */
#ifndef PS_COMMON_UPDATE_UPDATE_H
#define PS_COMMON_UPDATE_UPDATE_H

#include "common/base/param.h"
#include "common/update/local.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_update_facts {
    uint32_t workers, block_size, block_count, redundancy;
} ps_update_facts;

typedef struct ps_update {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */

    /* true: one contribution for each block that a worker holds; the server counts every block
     * once, from whichever holder it arrives first. false: one contribution per worker and clock,
     * the sum over the worker's blocks. */
    bool per_block;

    /* returns the factor of a block's gradient, such as 1/S for `gradient`; NULL exactly if `local`
     * is set */
    float (*block_scale)(const ps_update_facts *f);
    /* returns the factor of the sum of a clock, such as 1/K for `gradient` */
    float (*merge_scale)(const ps_update_facts *f);

    /* (optional) Writes the numbers of common/store/delay.h, by which servers correct gradients for
     * their delay. Only with policies that apply contributions one by one. */
    void (*delay)(const ps_params *params, double *lambda, double *decay);

    /* Servers send the change of the weights, encoded once for all workers, and step their own
     * weights by the decoded change too. Workers keep replicas with the same bits
     * (common/store/replica.h). Only with policies that sum over all workers. */
    bool broadcasts;

    const ps_local *local; /* (optional) NULL: a clock is a step, and workers send gradients */
} ps_update;

/* Returns 1, the merge_scale of updates whose contributions are already shares of the result. */
float ps_update_merge_sum(const ps_update_facts *f);

/* Returns the update with this name, or NULL if there is none. */
const ps_update *ps_update_find(const char *name);
/* Calls `fn` for every update, in the order of list.h. */
void ps_update_each(void (*fn)(const ps_update *update, void *arg), void *arg);

#endif
