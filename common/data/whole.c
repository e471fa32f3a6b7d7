/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - every worker trains on the whole training set in each epoch, in an order of its own,
 * as in JSAC2020. Each worker has one block, and in a step the epoch of each worker advances by
 * one block. So n workers together train on n times the set in an epoch, and an epoch has n times
 * as many steps as under iid without redundancy. */
#include "common/data/assign.h"

static ps_status whole_make(uint32_t workers, const ps_params *params, ps_assignment **out)
{
    ps_assignment *a;

    (void)params; /* whole has no numbers */
    if (workers == 0 || workers > PS_BLOCKS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "whole: there are %u workers; 1 to %d are allowed",
                       workers, PS_BLOCKS_MAX);
    }
    a = ps_assignment_create(workers, 1, workers);
    for (uint32_t w = 0; w < workers; w++) {
        a->holders[w] = w;
    }
    a->is_whole = true;
    ps_assignment_index(a);
    *out = a;
    return ps_ok();
}

const ps_assign ps_assign_whole = {
    .name = "whole",
    .summary = "every worker goes through the whole set in each epoch, in an order of its own",
    .make = whole_make,
};
