/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - delays no worker. */
#include "common/straggler/straggler.h"

static int64_t none_delay_us(const ps_params *params, uint64_t seed, uint32_t rank, uint64_t step,
                             int64_t busy_us)
{
    (void)params;
    (void)seed;
    (void)rank;
    (void)step;
    (void)busy_us;
    return 0;
}

const ps_straggler ps_straggler_none = {
    .name = "none",
    .summary = "delays no worker",
    .delay_us = none_delay_us,
};
