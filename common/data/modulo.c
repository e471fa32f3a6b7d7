/* SPDX-License-Identifier: Apache-2.0 */
/* modulo.c - files to workers: worker w trains on the files whose names end in a number that
 * is w modulo the workers, as split files are dealt out elsewhere. Each worker has one block, of
 * its own samples, and takes them again from the front when they end before the epoch. */
#include "common/data/assign.h"

static ps_status modulo_make(uint32_t workers, const ps_params *params, ps_assignment **out)
{
    ps_assignment *a;

    (void)params; /* there are none */
    if (workers == 0 || workers > PS_BLOCKS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "modulo: %u workers, allowed are 1 to %d", workers,
                       PS_BLOCKS_MAX);
    }
    a = ps_assignment_create(workers, 1, workers);
    for (uint32_t w = 0; w < workers; w++) {
        a->holders[w] = w;
    }
    a->is_by_file = true;
    ps_assignment_index(a);
    *out = a;
    return ps_ok();
}

const ps_assign ps_assign_modulo = {
    .name = "modulo",
    .summary = "a block for each worker, from the files whose number modulo workers is its own",
    .make = modulo_make,
};
