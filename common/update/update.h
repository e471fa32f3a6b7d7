/* SPDX-License-Identifier: Apache-2.0 */
/* update.h - what a worker sends for a clock and how servers merge it.
 *
 * Letters: N workers, S block size, K block count, r redundancy; g_b the mean
 * gradient of block b. A worker multiplies the gradient of the summed loss of a
 * block by block_scale; a server multiplies the sum of all contributions to a
 * clock by merge_scale. A clock is a step, or, under updates that have a `local`
 * (local.h), a round of steps that a worker takes on a replica of its own.
 * Formulas, sources and costs of all: docs/updates.md. To add one:
 * common/update/NAME.c, a line in list.h, one in CMakeLists.txt.
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

    /* true: one contribution for each block held, and the server counts every
     * block once, whoever of its holders brings it. false: one a step, the sum
     * over the blocks held; the contributor is the worker. */
    bool per_block;

    float (*block_scale)(const ps_update_facts *f); /* gradient: 1/S; NULL where local is not */
    float (*merge_scale)(const ps_update_facts *f); /* gradient: 1/K */

    /* (optional) Servers correct gradients for their delay: numbers of
     * common/store/delay.h. For policies that apply. */
    void (*delay)(const ps_params *params, double *lambda, double *decay);

    /* Servers send what the weights changed by, encoded once for all, and step by
     * that themselves; workers keep replicas of the same bits (common/store/replica.h).
     * For policies that sum over all workers. */
    bool broadcasts;

    const ps_local *local; /* (optional) NULL: a clock is a step, and what is sent are gradients */
} ps_update;

/* 1: contributions are shares of what is merged already. */
float ps_update_merge_sum(const ps_update_facts *f);

const ps_update *ps_update_find(const char *name);
void ps_update_each(void (*fn)(const ps_update *update, void *arg), void *arg);

#endif
