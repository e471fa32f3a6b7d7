/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - the sample order of an epoch, which every node can draw again. */
#include "common/data/assign.h"

#include "common/base/draw.h"

void ps_worker_order(uint64_t seed, uint64_t epoch, uint32_t worker, uint32_t *order,
                     uint32_t count)
{
    ps_draw_permutation(ps_draw_key(seed, PS_DRAW_ORDER, epoch, worker, 0), order, count);
}
