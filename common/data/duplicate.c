/* SPDX-License-Identifier: Apache-2.0 */
/* duplicate.c - groups of r workers, each group with a block of its own, which all its workers
 * hold: block b is on workers b * r to (b + 1) * r - 1. The number of workers must be a multiple of
 * r. */
#include "common/data/assign.h"

static ps_status duplicate_make(uint32_t workers, const ps_params *params, ps_assignment **out)
{
    uint32_t r = 0;
    ps_assignment *a = NULL;
    ps_status st = ps_assign_redundancy(workers, params, &r);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (workers % r != 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "duplicate: %u workers are not a multiple of redundancy %u", workers, r);
    }
    if (workers / r > PS_BLOCKS_MAX || workers > PS_COPIES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "duplicate: %u workers with redundancy %u have more than %d blocks", workers,
                       r, PS_BLOCKS_MAX);
    }
    a = ps_assignment_create(workers, r, workers / r);
    for (uint32_t w = 0; w < workers; w++) {
        a->holders[w] = w;
    }
    ps_assignment_index(a);
    *out = a;
    return ps_ok();
}

static const ps_param params_of_duplicate[] = {
    {.name = "redundancy",
     .value = 1,
     .min = 1,
     .max = PS_BLOCKS_MAX,
     .is_integer = true,
     .help = "workers in a group, which hold the same block; must divide the number of workers"},
    {.name = NULL},
};

const ps_assign ps_assign_duplicate = {
    .name = "duplicate",
    .summary = "n/r blocks, each on r neighbouring workers",
    .params = params_of_duplicate,
    .make = duplicate_make,
};
