/* SPDX-License-Identifier: Apache-2.0 */
/* seed.h - a seed for randomised tests: another one in every run, or a given one. */
#ifndef PS_TESTS_SUPPORT_SEED_H
#define PS_TESTS_SUPPORT_SEED_H

#include "common/base/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the number in the environment variable PSGD_SEED, else the time. Prints it, so that a
 * failed run can be repeated with PSGD_SEED. */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("PSGD_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)ps_clock_wall_us();

    printf("PSGD_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

#endif
