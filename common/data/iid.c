/* SPDX-License-Identifier: Apache-2.0 */
/* iid.c - a block for every set of r workers.
 *
 * The blocks are the r-subsets of the workers in lexicographic order: C(n, r) blocks, C(n-1,
 * r-1) on each worker. n = 4, r = 2: 01 02 03 12 13 23.
 */
#include "common/data/assign.h"

#include <assert.h>

/* Returns C(n, k), or some number above `limit` if C(n, k) is above it. Nothing overflows: before
 * each multiplication c is at most `limit`, and the factor is below 2^32. */
static uint64_t choose(uint32_t n, uint32_t k, uint64_t limit)
{
    uint64_t c = 1;

    if (k > n - k) {
        k = n - k;
    }
    for (uint32_t i = 1; i <= k && c <= limit; i++) {
        c = c * (n - k + i) / i;
    }
    return c;
}

/* Writes the r-subset of the n workers that follows `prev` in lexicographic order; both ascend. */
static void next_subset(const uint32_t *prev, uint32_t *next, uint32_t n, uint32_t r)
{
    uint32_t i = r;

    do {
        assert(i > 0); /* prev was not the last */
        i--;
    } while (prev[i] == n - r + i);
    for (uint32_t j = 0; j < r; j++) {
        next[j] = j < i ? prev[j] : prev[i] + 1 + (j - i);
    }
}

static ps_status iid_make(uint32_t workers, const ps_params *params, ps_assignment **out)
{
    uint32_t r = 0;
    uint64_t blocks;
    ps_assignment *a = NULL;
    ps_status st = ps_assign_redundancy(workers, params, &r);

    if (!ps_is_ok(&st)) {
        return st;
    }
    blocks = choose(workers, r, PS_BLOCKS_MAX);
    if (blocks > PS_BLOCKS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "iid: %u workers with redundancy %u have C(%u,%u) blocks, more than %d",
                       workers, r, workers, r, PS_BLOCKS_MAX);
    }
    if (blocks * r > PS_COPIES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "iid: %u workers with redundancy %u hold C(%u,%u)*%u copies, more than %d",
                       workers, r, workers, r, r, PS_COPIES_MAX);
    }
    a = ps_assignment_create(workers, r, (uint32_t)blocks);
    for (uint32_t i = 0; i < r; i++) {
        a->holders[i] = i;
    }
    for (size_t b = 1; b < blocks; b++) {
        next_subset(&a->holders[(b - 1) * r], &a->holders[b * r], workers, r);
    }
    ps_assignment_index(a);
    *out = a;
    return ps_ok();
}

static const ps_param params_of_iid[] = {
    {.name = "redundancy",
     .value = 1,
     .min = 1,
     .max = PS_BLOCKS_MAX,
     .is_integer = true,
     .help = "copies of a block, each on another worker; at most the number of workers"},
    {.name = NULL},
};

const ps_assign ps_assign_iid = {
    .name = "iid",
    .summary = "C(n,r) blocks, one for every r of the n workers",
    .params = params_of_iid,
    .make = iid_make,
};
