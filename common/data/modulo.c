/* SPDX-License-Identifier: Apache-2.0 */
/* modulo.c - assigns files to workers: worker w trains on the files whose names end in a number
 * that is w modulo the number of workers. Each worker has one block with samples of its own,
 * and repeats them from the front if they end before the epoch does. */
#include "common/data/assign.h"

static ps_status modulo_make(uint32_t workers, const ps_params *params, ps_assignment **out)
{
    ps_assignment *a;

    (void)params; /* modulo has no numbers */
    if (workers == 0 || workers > PS_BLOCKS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "modulo: there are %u workers; 1 to %d are allowed",
                       workers, PS_BLOCKS_MAX);
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
    .summary =
        "a block for each worker, from the files whose number modulo the workers is its rank",
    .is_by_file = true,
    .make = modulo_make,
};
