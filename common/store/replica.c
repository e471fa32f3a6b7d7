/* SPDX-License-Identifier: Apache-2.0 */
/* replica.c - see replica.h. One function for all: differences and no products, so
 * that no compiler has anything to fuse. */
#include "common/store/replica.h"

#include <xxhash.h>

void ps_replica_step(float *w, const float *change, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= change[i];
    }
}

uint64_t ps_replica_checksum(const float *w, size_t n)
{
    return XXH3_64bits(w, n * sizeof *w);
}
