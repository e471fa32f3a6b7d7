/* SPDX-License-Identifier: Apache-2.0 */
/* shuffle.c - the plain orders: a shuffled one, or that of the files. Without either transform
 * each epoch is shuffled anew, as with `shuffle`. */
#include "common/data/transform.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

static const ps_param params[] = {
    {.name = "every_epoch",
     .value = 1,
     .min = 0,
     .max = 1,
     .is_integer = true,
     .help = "0: one order for all epochs; 1: a new order for each epoch"},
    {.name = NULL},
};

static void arrange(const ps_transforming *at, uint64_t epoch, uint32_t *order, uint32_t count)
{
    uint32_t *held = ps_xcalloc(count, sizeof *held);
    uint32_t *turn = ps_xcalloc(count, sizeof *turn);

    memcpy(held, order, count * sizeof *held);
    ps_worker_order(at->conf->seed, at->params->v[0] == 1 ? epoch : 0, at->conf->worker, turn,
                    count);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = held[turn[i]];
    }
    free(held);
    free(turn);
}

const ps_transform ps_transform_shuffle = {
    .name = "shuffle",
    .summary = "shuffles the training set, with the same order on every node",
    .params = params,
    .begins_order = true,
    .arrange = arrange,
};

const ps_transform ps_transform_in_order = {
    .name = "in_order",
    .summary = "takes the training set in the order of its files in each epoch",
    .begins_order = true,
};
