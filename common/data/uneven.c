/* SPDX-License-Identifier: Apache-2.0 */
/* uneven.c - workers of different speed: each worker holds as many blocks as its ratio says.
 * Worker 0 has ratio_1, worker 1 has ratio_2. If there are more workers than given ratios (those
 * above 0), the ratios repeat. */
#include "common/data/assign.h"

#include <stdio.h>

enum { RATIOS = 8, RATIO_MAX = 64 };

static ps_status uneven_make(uint32_t workers, const ps_params *params, ps_assignment **out)
{
    uint32_t given = 0, blocks = 0, b = 0;
    ps_assignment *a;

    while (given < RATIOS && params->v[given] > 0) {
        given++;
    }
    for (uint32_t i = given; i < RATIOS; i++) {
        if (params->v[i] > 0) {
            return ps_fail(
                PS_INVALID_ARGUMENT,
                "uneven: ratio_%u is given but ratio_%u is not; give ratios without a gap", i + 1,
                given + 1);
        }
    }
    if (workers == 0 || given == 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "uneven: there are %u workers and %u ratios; at least one of each is needed",
                       workers, given);
    }
    for (uint32_t w = 0; w < workers; w++) {
        blocks += (uint32_t)params->v[w % given];
    }
    if (blocks > PS_BLOCKS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "uneven: %u workers would have %u blocks; at most %d are allowed", workers,
                       blocks, PS_BLOCKS_MAX);
    }
    a = ps_assignment_create(workers, 1, blocks);
    for (uint32_t w = 0; w < workers; w++) {
        for (uint32_t i = 0; i < (uint32_t)params->v[w % given]; i++) {
            a->holders[b++] = w;
        }
    }
    ps_assignment_index(a);
    *out = a;
    return ps_ok();
}

#define RATIO(number, default_value)                                                               \
    {                                                                                              \
        .name = "ratio_" #number, .value = (default_value), .min = 0, .max = RATIO_MAX,            \
        .is_integer = true,                                                                        \
        .help = "blocks of each worker in this place of the cycle; 0: no such place"               \
    }

static const ps_param params_of_uneven[] = {
    RATIO(1, 1), RATIO(2, 0), RATIO(3, 0), RATIO(4, 0),    RATIO(5, 0),
    RATIO(6, 0), RATIO(7, 0), RATIO(8, 0), {.name = NULL},
};

const ps_assign ps_assign_uneven = {
    .name = "uneven",
    .summary = "each worker holds its ratio of blocks, ratio_1 to ratio_8 in turn",
    .params = params_of_uneven,
    .make = uneven_make,
};
