/* SPDX-License-Identifier: Apache-2.0 */
/* seed.h - another order of things in every run, and the same again on demand. */
#ifndef PS_TESTS_SUPPORT_SEED_H
#define PS_TESTS_SUPPORT_SEED_H

#include "common/base/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* PSGD_SEED, or the time; printed, so that a run that failed can be had again. */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("PSGD_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)ps_clock_wall_us();

    printf("PSGD_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

#endif
